#ifndef MILLRACE_AUGMENT_JPEG_ENTROPY_H_
#define MILLRACE_AUGMENT_JPEG_ENTROPY_H_

#include <array>
#include <cstdint>

#include "augment/jpeg/block.h"
#include "augment/jpeg/frame.h"
#include "augment/jpeg/huffman.h"
#include "augment/jpeg/lanes.h"
#include "augment/jpeg/scan.h"
#include "augment/jpeg/target.h"

namespace millrace::augment::jpeg {

inline constexpr int kMaxBlocksPerMcu = 6;

// Where the bit stream stands.
struct BitReader {
  uint64_t buffer = 0;  // the next bits, from the top
  uint64_t count = 0;   // of them valid; fewer than 64
  const uint8_t* next = nullptr;
};

// Which block an MCU's n-th is.
struct McuBlock {
  int component = 0;
  const HuffmanTable* dc = nullptr;
  const HuffmanTable* ac = nullptr;
};

// Decodes the coefficients of a frame, row of MCUs by row of MCUs. Coefficients are written MCU by
// MCU, block by block, a block's by rows of pixels, over zeros. Thread-compatible; used again and
// again, it keeps its memory.
//
// Of two ways to decode a row the caller chooses one at each row's begin: DecodeRow or SkipRow, or
// a lane that is decoded beside those of other images (augment/jpeg/lanes.h).
class EntropyDecoder {
 public:
  // Builds the tables and stands before the first MCU. `bytes` is the whole file that `frame` was
  // read from; both must outlive the decoding. False: libjpeg's to judge.
  bool Start(const Frame& frame, std::string_view bytes, Level level);
  int blocks_per_mcu() const { return num_blocks_; }

  // Decodes the next row; MCUs [first, end) are written to `blocks`. False where libjpeg would
  // warn, or might.
  bool DecodeRow(int first, int end, Block* blocks);
  // The same, and nothing is written.
  bool SkipRow();

  // True when rows may be decoded in lanes.
  bool has_lanes() const { return level_ >= Level::kAvx2 && frame_->restart_interval == 0; }
  // Makes the blocks of a row, and kLaneRoom more, ready for lanes; their coefficients stay.
  void PrepareBlocks(Block* blocks) const;
  // A lane that writes all MCUs of the next row to `blocks`, which has room for kLaneRoom more.
  Lane StartLane(Block* blocks) const;
  // Decodes what is left of the lane's row. False as DecodeRow.
  bool FinishLane(Lane lane, Block* blocks);

 private:
  bool BuildTables(const Frame& frame);
  // Decodes `count` MCUs; blocks == nullptr: skips them.
  bool DecodeRun(int count, Block* blocks);
  bool BeginSegment();
  // True when no more bits are used than there are, and no sum of differences may overflow.
  bool InBounds() const;
  uint64_t position() const {
    return static_cast<uint64_t>(bits_.next - scan_.data()) * 8 - bits_.count;
  }

  const Frame* frame_ = nullptr;
  Level level_ = Level::kScalar;
  ScanReader scan_;
  BitReader bits_;
  int num_blocks_ = 0;  // of an MCU
  std::array<McuBlock, kMaxBlocksPerMcu> blocks_;
  std::array<int32_t, kMaxComponents> dc_ = {};  // the last of each component
  int until_restart_ = 0;
  std::array<HuffmanTable, 2> dc_tables_;
  std::array<HuffmanTable, 2> ac_tables_;
};

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_ENTROPY_H_
