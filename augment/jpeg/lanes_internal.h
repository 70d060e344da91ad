#ifndef MILLRACE_AUGMENT_JPEG_LANES_INTERNAL_H_
#define MILLRACE_AUGMENT_JPEG_LANES_INTERNAL_H_

#include <cstdint>

#include "augment/jpeg/huffman_internal.h"

namespace millrace::augment::jpeg {

inline constexpr int kNumLanes = 3;

// A block's place in the MCU: what is decoded with which table, in a ring.
struct LaneState {
  const uint32_t* ac = nullptr;       // of this block
  const uint32_t* next_dc = nullptr;  // of the next block
  const LaneState* next = nullptr;
  const LongCodes* dc_codes = nullptr;  // of this block
  const LongCodes* ac_codes = nullptr;
};

// One image's row of MCUs being decoded. DC coefficients are written as differences.
struct Lane {
  uint64_t position = 0;            // of the next bit, counted from address 0
  const uint32_t* table = nullptr;  // for the next symbol
  int64_t k = -1;                   // the last coefficient's place in the block
  int16_t* block = nullptr;
  const LaneState* state = nullptr;
  int16_t* end = nullptr;      // behind the row's last block
  uint64_t last_position = 0;  // the bits may end before, but not behind it
  bool ok = true;
};

// Decodes kNumLanes lanes side by side until one of them is near its row's end or has failed (its
// `ok` is false, or it is beyond its last position), and returns which. x86-64 with AVX2 and BMI2 only.
int DecodeLanes(Lane* const* lanes);
// Decodes one lane to its row's end. False when it fails.
bool DecodeLane(Lane& lane);

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_LANES_INTERNAL_H_
