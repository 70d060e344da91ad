#include "trainer/backend/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <numeric>
#include <utility>

namespace millrace::trainer {
namespace {

size_t RoundUp(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// A buffer's place.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

// The smallest gap between `taken` that has room for so many bytes, or the end.
size_t PlaceIn(std::vector<Span> taken, size_t bytes) {
  std::ranges::sort(taken, {}, &Span::begin);
  size_t best = SIZE_MAX;
  size_t best_gap = SIZE_MAX;
  size_t end = 0;
  for (const Span& span : taken) {
    const size_t gap = span.begin > end ? span.begin - end : 0;
    if (gap >= bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, span.end);
  }
  return best == SIZE_MAX ? end : best;
}

}  // namespace

void Interval::Extend(int64_t time) {
  first = std::min(first, time);
  last = std::max(last, time);
}

bool BufferLife::Meets(const BufferLife& other) const {
  return std::ranges::any_of(intervals, [&](const Interval& mine) {
    return std::ranges::any_of(other.intervals,
                               [&](const Interval& theirs) { return mine.Meets(theirs); });
  });
}

size_t MostLiveBytes(const std::vector<BufferLife>& buffers) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // times, and bytes that are more from then on
  for (const BufferLife& buffer : buffers) {
    const auto bytes = static_cast<int64_t>(buffer.bytes);
    for (const Interval& interval : buffer.intervals) {
      changes.emplace_back(interval.first, bytes);
      changes.emplace_back(interval.last + 1, -bytes);
    }
  }
  std::ranges::sort(changes);  // of a time, those that end come first
  int64_t live = 0;
  int64_t most = 0;
  for (const auto& [time, bytes] : changes) {
    live += bytes;
    most = std::max(most, live);
  }
  return static_cast<size_t>(most);
}

ArenaPlan PlanArena(const std::vector<BufferLife>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  ArenaPlan plan;
  plan.offsets.resize(buffers.size());
  plan.live_bytes = MostLiveBytes(buffers);
  for (size_t i = 0; i < order.size(); ++i) {
    const BufferLife& buffer = buffers[order[i]];
    const size_t bytes = RoundUp(buffer.bytes, kArenaAlignment);
    std::vector<Span> taken;
    for (size_t k = 0; k < i; ++k) {
      if (!buffer.Meets(buffers[order[k]])) continue;
      const size_t begin = plan.offsets[order[k]];
      taken.push_back({begin, begin + RoundUp(buffers[order[k]].bytes, kArenaAlignment)});
    }
    plan.offsets[order[i]] = PlaceIn(std::move(taken), bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[order[i]] + bytes);
  }
  return plan;
}

void FreeMemory::operator()(void* memory) const { std::free(memory); }

std::unique_ptr<void, FreeMemory> AllocateArena(size_t bytes) {
  constexpr size_t kLargePage = size_t{2} << 20;
  const size_t alignment = bytes >= kLargePage ? kLargePage : kArenaAlignment;
  const size_t whole = RoundUp(std::max<size_t>(bytes, 1), alignment);
  std::unique_ptr<void, FreeMemory> memory(std::aligned_alloc(alignment, whole));
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory.get(), whole, MADV_HUGEPAGE);  // may do nothing
  return memory;
}

}  // namespace millrace::trainer
