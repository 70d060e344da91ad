#ifndef MILLRACE_TRAINER_BACKEND_ARENA_H_
#define MILLRACE_TRAINER_BACKEND_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace millrace::trainer {

// The times from a first use to a last one.
struct Interval {
  int64_t first = INT64_MAX;
  int64_t last = INT64_MIN;

  void Extend(int64_t time);
  bool IsEmpty() const { return first > last; }
  bool Meets(const Interval& other) const { return first <= other.last && other.first <= last; }
};

// A buffer, and the intervals in which its content is needed: between two of them it is lost.
struct BufferLife {
  size_t bytes = 0;
  std::vector<Interval> intervals;

  bool Meets(const BufferLife& other) const;
};

// The most bytes that live at a time.
size_t MostLiveBytes(const std::vector<BufferLife>& buffers);

// Places of buffers in one piece of memory, so that those which live at a time do not overlap.
struct ArenaPlan {
  std::vector<size_t> offsets;  // of each buffer, multiples of kArenaAlignment
  size_t bytes = 0;             // of all
  size_t live_bytes = 0;        // MostLiveBytes: no plan needs less
};

inline constexpr size_t kArenaAlignment = 4096;

// Places large buffers first, each where it leaves the least room.
ArenaPlan PlanArena(const std::vector<BufferLife>& buffers);

struct FreeMemory {
  void operator()(void* memory) const;
};

// Memory for a plan, in large pages where the system has them. May throw std::bad_alloc.
std::unique_ptr<void, FreeMemory> AllocateArena(size_t bytes);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ARENA_H_
