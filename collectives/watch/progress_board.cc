#include "collectives/watch/progress_board.h"

namespace millrace::collectives {
namespace {

// A writer may be interrupted while others have the processor; a writer that died never ends.
constexpr int kMaxReads = 1 << 10;

}  // namespace

static_assert(std::atomic<int64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

void ProgressPage::Write(const Sighting& sighting) {
  const int64_t words[kWords] = {
      sighting.step, sighting.bucket, static_cast<int64_t>(sighting.phase),
      static_cast<int64_t>(sighting.presence), static_cast<int64_t>(sighting.beat)};
  // Readers that see a word see the odd version before it (release), and those that see the even
  // one see all words.
  const uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version | 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  version_.store((version | 1) + 1, std::memory_order_release);
}

Sighting ProgressPage::Read() const {
  int64_t words[kWords];
  for (int i = 0; i < kMaxReads; ++i) {
    const uint32_t before = version_.load(std::memory_order_acquire);
    for (size_t w = 0; w < kWords; ++w) words[w] = words_[w].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
  }
  Sighting sighting;
  sighting.step = words[0];
  sighting.bucket = static_cast<int32_t>(words[1]);
  sighting.phase = static_cast<Phase>(words[2]);
  sighting.presence = static_cast<Presence>(words[3]);
  sighting.beat = static_cast<uint64_t>(words[4]);
  return sighting;
}

size_t ProgressBoard::SizeBytes(int num_ranks) {
  return sizeof(Bench) + static_cast<size_t>(num_ranks) * sizeof(Slot);
}

ProgressBoard::ProgressBoard(std::byte* memory, int num_ranks)
    : num_ranks_(num_ranks),
      bench_(reinterpret_cast<Bench*>(memory)),
      slots_(reinterpret_cast<Slot*>(memory + sizeof(Bench))) {}

void ProgressBoard::Give(const Verdict& verdict) {
  uint64_t none = 0;
  const uint64_t word = (uint64_t{static_cast<uint32_t>(verdict.cause)} << 32) +
                        static_cast<uint64_t>(verdict.rank) + 1;
  bench_->verdict.compare_exchange_strong(none, word, std::memory_order_release,
                                          std::memory_order_relaxed);
}

std::optional<Verdict> ProgressBoard::verdict() const {
  const uint64_t word = bench_->verdict.load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  return Verdict{static_cast<int>((word & 0xffffffff) - 1), static_cast<Cause>(word >> 32)};
}

}  // namespace millrace::collectives
