#ifndef MILLRACE_AUGMENT_JPEG_BLOCK_H_
#define MILLRACE_AUGMENT_JPEG_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "augment/jpeg/frame.h"
#include "augment/jpeg/huffman.h"

namespace millrace::augment::jpeg {

// A block in the bit stream's order of blocks. What decodes it stands before it, so that a loop
// that has come to the block needs no other register to find it (lanes.cc).
struct alignas(16) Block {
  const HuffmanTable* ac;
  const HuffmanTable* next_dc;       // of the block behind it
  int16_t coefficients[kBlockSize];  // by rows of pixels
};
// A lane stores what ends a block as a coefficient of the next one.
static_assert(offsetof(Block, coefficients) + sizeof(Block::coefficients) == sizeof(Block));

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_BLOCK_H_
