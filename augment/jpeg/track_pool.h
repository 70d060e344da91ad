#ifndef MILLRACE_AUGMENT_JPEG_TRACK_POOL_H_
#define MILLRACE_AUGMENT_JPEG_TRACK_POOL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "augment/jpeg/region_decoder.h"
#include "augment/jpeg/tracks.h"

namespace millrace::augment::jpeg {

// Decodes the regions of a queue of images, a few at a time in turns, which is faster than one
// after the other (tracks.cc). Results are those of RegionDecoder::Decode.
// Thread-compatible.
class TrackPool {
 public:
  // `done(tag, ok)` is called once for each submitted image, within Submit or Flush.
  explicit TrackPool(std::function<void(int64_t, bool)> done, Level level = BestLevel());

  // Returns a decoder that is not in use. Open an image in it and, if that returns true, Submit a
  // region of the image.
  RegionDecoder& idle();
  // Takes a region of the image that is open in idle(); `out` as in RegionDecoder::Decode, valid
  // until `done`.
  void Submit(int64_t tag, const Region& region, int channels, uint8_t* out, int64_t stride);
  // Finishes all images.
  void Flush();

 private:
  struct Slot {
    explicit Slot(Level level) : decoder(level) {}
    RegionDecoder decoder;
    int64_t tag = 0;
    bool busy = false;  // true if it holds an image that is not done
    Track track;
  };

  void Finish(Slot& slot, bool ok);
  // Decodes until an image is finished. REQUIRES: all slots are busy.
  void RunUntilOneIsIdle();

  const std::function<void(int64_t, bool)> done_;
  std::array<Slot, kNumTracks> slots_;
};

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_TRACK_POOL_H_
