#include "readers/convert/work.h"

#include <optional>
#include <utility>

#include "base/status.h"
#include "readers/parallel/parallel.h"

namespace millrace::readers::internal {
namespace {

// The chunks that are under way, and how the work ends.
class Chunks {
 public:
  Chunks(const ChunkWork& work, size_t max_under_way) : work_(work), slots_(max_under_way) {}

  OrderedSteps Steps() {
    return {.begin =
                [this](uint64_t chunk) {
                  if (work_.fetch_in_order) Fetch(chunk);
                },
            .work =
                [this](uint64_t chunk) {
                  if (!work_.fetch_in_order) Fetch(chunk);
                  Encode(chunk);
                },
            .end = [this](uint64_t chunk) { return Write(chunk); }};
  }

  absl::Status TakeStatus() { return std::move(status_); }

 private:
  struct Slot {
    absl::StatusOr<std::unique_ptr<FetchedRecords>> fetched;
    absl::StatusOr<EncodedChunk> encoded;
  };

  Slot& SlotOf(uint64_t chunk) { return slots_[chunk % slots_.size()]; }

  void Fetch(uint64_t chunk) { SlotOf(chunk).fetched = work_.fetch(chunk); }

  void Encode(uint64_t chunk) {
    Slot& slot = SlotOf(chunk);
    slot.encoded = slot.fetched.ok() ? work_.encode(chunk, **slot.fetched)
                                     : absl::StatusOr<EncodedChunk>(slot.fetched.status());
    slot.fetched = nullptr;
  }

  bool Write(uint64_t chunk) {
    absl::StatusOr<EncodedChunk> encoded = std::move(SlotOf(chunk).encoded);
    status_ = encoded.ok() ? work_.write(*std::move(encoded)) : encoded.status();
    return status_.ok();
  }

  const ChunkWork& work_;
  std::vector<Slot> slots_;  // each used by one step at a time
  absl::Status status_;      // of the writes
};

}  // namespace

absl::Status RunInOrder(const ChunkWork& work, int threads) {
  const size_t max_under_way = threads <= 1 ? 1 : 2 * static_cast<size_t>(threads);
  Chunks chunks(work, max_under_way);
  MILLRACE_RETURN_IF_ERROR(
      OrderedPipeline(work.num_chunks, max_under_way, threads, chunks.Steps()));
  return chunks.TakeStatus();
}

}  // namespace millrace::readers::internal
