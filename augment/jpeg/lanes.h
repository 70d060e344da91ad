#ifndef MILLRACE_AUGMENT_JPEG_LANES_H_
#define MILLRACE_AUGMENT_JPEG_LANES_H_

#include <cstdint>

#include "augment/jpeg/block.h"

namespace millrace::augment::jpeg {

inline constexpr int kNumLanes = 3;

// Blocks behind a row's last that may be written to, and whose tables are read.
inline constexpr int kLaneRoom = 3;

// One image's row of MCUs being decoded. DC coefficients are written as differences.
struct Lane {
  uint64_t position = 0;                // of the next bit, counted from address 0
  const HuffmanTable* table = nullptr;  // for the next symbol
  int64_t k = -1;                       // the last coefficient's place in the block
  Block* block = nullptr;
  Block* end = nullptr;        // behind the row's last block
  uint64_t last_position = 0;  // the bits may end before, but not behind it
  bool ok = true;
};

// Decodes kNumLanes lanes side by side until one of them is near its row's end or has failed (its
// `ok` is false, or it is beyond its last position), and returns which. x86-64 with AVX2 and BMI2
// only.
int DecodeLanes(Lane* const* lanes);
// Decodes one lane to its row's end. False when it fails.
bool DecodeLane(Lane& lane);

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_LANES_H_
