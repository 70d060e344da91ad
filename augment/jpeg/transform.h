#ifndef MILLRACE_AUGMENT_JPEG_TRANSFORM_H_
#define MILLRACE_AUGMENT_JPEG_TRANSFORM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "augment/jpeg/block.h"
#include "augment/jpeg/target.h"

namespace millrace::augment::jpeg {

// The places of the blocks of a row: groups of `group` blocks, `group_stride` blocks from one group
// to the next.
struct BlockRow {
  const Block* blocks = nullptr;
  int num_blocks = 0;
  int group = 1;  // 1 or 2
  int group_stride = 1;
};

// Writes the samples of blocks side by side by libjpeg's accurate inverse transform (ISLOW), with
// the bits of libjpeg-turbo's vector code, 16-bit wrapping included. `quant` is by rows, as 16-bit
// integers. Writes 8 rows of 8 samples per block, and up to kRowPadding more per row. False if
// libjpeg-turbo's short cut for empty rows would give other bits: a dequantised coefficient of the
// first row is outside [-8192, 8191], which no encoder writes.
bool InverseTransform(const BlockRow& row, const std::array<uint16_t, kBlockSize>& quant,
                      uint8_t* out, ptrdiff_t stride, Level level);

// Makes all coefficients zero.
void ClearBlocks(Block* blocks, int count, Level level);

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_TRANSFORM_H_
