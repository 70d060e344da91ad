#ifndef MILLRACE_AUGMENT_JPEG_TRACKS_H_
#define MILLRACE_AUGMENT_JPEG_TRACKS_H_

#include <cstdint>

#include "augment/jpeg/block.h"

namespace millrace::augment::jpeg {

inline constexpr int kNumTracks = 3;

// Number of blocks behind a row's last one that may be written to, and whose tables are read.
inline constexpr int kTrackRoom = 3;

// The state of decoding one image's row of MCUs. DC coefficients are written as differences.
struct Track {
  uint64_t position = 0;                // the next bit, counted from address 0
  const HuffmanTable* table = nullptr;  // for the next symbol
  int64_t k = -1;                       // the last coefficient's place in the block
  Block* block = nullptr;
  Block* end = nullptr;        // behind the row's last block
  uint64_t last_position = 0;  // the row's bits end here at the latest
  bool ok = true;              // false after damage
};

// Decodes kNumTracks tracks side by side until one of them is near its row's end or has failed (its
// `ok` is false, or it is beyond its last position), and returns the number of that one. Needs
// x86-64 with AVX2 and BMI2.
int DecodeTracks(Track* const* tracks);
// Decodes one track to its row's end. False if it fails.
bool DecodeTrack(Track& track);

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_TRACKS_H_
