#ifndef MILLRACE_AUGMENT_JPEG_BLOCK_H_
#define MILLRACE_AUGMENT_JPEG_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "augment/jpeg/frame.h"
#include "augment/jpeg/huffman.h"

namespace millrace::augment::jpeg {

// A block in the bit stream's order of blocks. Its tables lie in front of the coefficients, so that
// a loop at the block needs no other register to find them (tracks.cc).
struct alignas(16) Block {
  const HuffmanTable* ac;
  const HuffmanTable* next_dc;       // DC table of the block behind it
  int16_t coefficients[kBlockSize];  // by rows of pixels
};
// A track stores the end of a block as a coefficient in front of the next block.
static_assert(offsetof(Block, coefficients) + sizeof(Block::coefficients) == sizeof(Block));

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_BLOCK_H_
