#include "augment/jpeg/track_pool.h"

#include <algorithm>

namespace millrace::augment::jpeg {

static_assert(kNumTracks == 3);
TrackPool::TrackPool(std::function<void(int64_t, bool)> done, Level level)
    : done_(std::move(done)), slots_{Slot(level), Slot(level), Slot(level)} {}

RegionDecoder& TrackPool::idle() {
  return std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.busy; })->decoder;
}

void TrackPool::Submit(int64_t tag, const Region& region, int channels, uint8_t* out,
                       int64_t stride) {
  Slot& slot = *std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.busy; });
  slot.tag = tag;
  if (!slot.decoder.Begin(region, channels, out, stride)) return Finish(slot, false);
  if (!slot.decoder.has_tracks()) return Finish(slot, slot.decoder.FinishRows());
  slot.busy = true;
  slot.track = slot.decoder.StartRow();
  if (std::all_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.busy; })) {
    RunUntilOneIsIdle();
  }
}

void TrackPool::RunUntilOneIsIdle() {
  Track* tracks[kNumTracks];
  for (int i = 0; i < kNumTracks; ++i) tracks[i] = &slots_[i].track;
  for (;;) {
    Slot& slot = slots_[DecodeTracks(tracks)];
    if (!slot.decoder.EndRow(slot.track)) return Finish(slot, false);
    if (slot.decoder.is_done()) return Finish(slot, true);
    slot.track = slot.decoder.StartRow();
  }
}

void TrackPool::Flush() {
  for (Slot& slot : slots_) {
    if (slot.busy) Finish(slot, slot.decoder.EndRow(slot.track) && slot.decoder.FinishRows());
  }
}

void TrackPool::Finish(Slot& slot, bool ok) {
  slot.busy = false;
  done_(slot.tag, ok);
}

}  // namespace millrace::augment::jpeg
