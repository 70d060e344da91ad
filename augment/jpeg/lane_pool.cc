#include "augment/jpeg/lane_pool.h"

#include <algorithm>

namespace millrace::augment::jpeg {

static_assert(kNumLanes == 3);
LanePool::LanePool(std::function<void(int64_t, bool)> done, Level level)
    : done_(std::move(done)), slots_{Slot(level), Slot(level), Slot(level)} {}

RegionDecoder& LanePool::idle() {
  return std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.busy; })->decoder;
}

void LanePool::Submit(int64_t tag, const Region& region, int channels, uint8_t* out,
                      int64_t stride) {
  Slot& slot = *std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.busy; });
  slot.tag = tag;
  if (!slot.decoder.Begin(region, channels, out, stride)) return Finish(slot, false);
  if (!slot.decoder.has_lanes()) return Finish(slot, slot.decoder.FinishRows());
  slot.busy = true;
  slot.lane = slot.decoder.StartRow();
  if (std::all_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.busy; })) {
    RunUntilOneIsIdle();
  }
}

void LanePool::RunUntilOneIsIdle() {
  Lane* lanes[kNumLanes];
  for (int i = 0; i < kNumLanes; ++i) lanes[i] = &slots_[i].lane;
  for (;;) {
    Slot& slot = slots_[DecodeLanes(lanes)];
    if (!slot.decoder.EndRow(slot.lane)) return Finish(slot, false);
    if (slot.decoder.is_done()) return Finish(slot, true);
    slot.lane = slot.decoder.StartRow();
  }
}

void LanePool::Flush() {
  for (Slot& slot : slots_) {
    if (slot.busy) Finish(slot, slot.decoder.EndRow(slot.lane) && slot.decoder.FinishRows());
  }
}

void LanePool::Finish(Slot& slot, bool ok) {
  slot.busy = false;
  done_(slot.tag, ok);
}

}  // namespace millrace::augment::jpeg
