#ifndef MILLRACE_READERS_FILE_MAPPING_H_
#define MILLRACE_READERS_FILE_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace::readers {

// A whole file mapped for reading. Thread-safe.
class Mapping {
 public:
  // nullptr: it cannot be mapped, or its pages cannot be asked for (Linux before 5.14).
  static std::shared_ptr<const Mapping> Make(int fd, uint64_t size);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // A touch of pages that were not asked for by Populate may be a SIGBUS.
  const std::byte* bytes() const { return bytes_; }

  // Fetches the pages of [offset, offset + count), which must lie inside. False: the disk fails, or
  // the file has become shorter.
  bool Populate(uint64_t offset, size_t count) const;

 private:
  Mapping(std::byte* bytes, uint64_t size) : bytes_(bytes), size_(size) {}

  std::byte* const bytes_;
  const uint64_t size_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_MAPPING_H_
