#ifndef MILLRACE_TRAINER_BACKEND_CUDA_BUFFERS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "trainer/backend/arena.h"

namespace millrace::trainer::cuda {

// A part of a buffer, by the buffer's number; by default none.
struct Part {
  int buffer = -1;
  size_t begin = 0;
  size_t bytes = 0;

  explicit operator bool() const { return buffer >= 0; }
  // Bytes of it.
  Part Cut(size_t offset, size_t count) const { return {buffer, begin + offset, count}; }
};

// A part that holds elements of one type.
struct Tensor : Part {
  DType type = DType::kF32;
};

// The buffers of a network: in one arena, in which those share bytes that no operation needs at the
// same time, or memory of others.
class Buffers {
 public:
  // A buffer whose content is lost behind the last operation that uses it.
  Part Add(const std::string& name, size_t bytes);
  // A buffer that always keeps its content.
  Part AddKept(const std::string& name, size_t bytes);
  // Memory of others, which outlives the network.
  Part Borrow(const std::string& name, const void* memory, size_t bytes);
  // Makes room for `bytes` in a buffer of the arena.
  void Grow(const Part& part, size_t bytes);
  // Says that an operation uses the buffer. Times ascend from 0.
  void Use(const Part& part, int64_t time);
  // Says that the host reads the buffer behind all operations.
  void UseAtTheEnd(const Part& part);
  // Keeps the content of buffers that are used before `from` and after it until the end.
  void KeepWhatCrosses(int64_t from);

  // Plans the arena; with `recycles` false no two buffers share bytes.
  void Plan(bool recycles);
  size_t arena_bytes() const { return plan_.bytes; }
  size_t kept_bytes() const;
  // Puts the arena into memory of arena_bytes().
  void Place(std::byte* arena) { arena_ = arena; }

  // The place of a part; null for none, and before Place.
  std::byte* At(const Part& part) const;
  const std::string& name(const Part& part) const { return buffers_[part.buffer].name; }

 private:
  struct Buffer {
    std::string name;
    size_t bytes = 0;
    bool is_kept = false;
    const void* borrowed = nullptr;
    Interval life = {};
  };

  Part Append(Buffer buffer);

  std::vector<Buffer> buffers_;
  ArenaPlan plan_;
  std::byte* arena_ = nullptr;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_BUFFERS_H_
