#ifndef MILLRACE_AUGMENT_JPEG_ENTROPY_H_
#define MILLRACE_AUGMENT_JPEG_ENTROPY_H_

#include <array>
#include <cstdint>

#include "augment/jpeg/block.h"
#include "augment/jpeg/frame.h"
#include "augment/jpeg/huffman.h"
#include "augment/jpeg/scan.h"
#include "augment/jpeg/target.h"
#include "augment/jpeg/tracks.h"

namespace millrace::augment::jpeg {

inline constexpr int kMaxBlocksPerMcu = 6;

// A position in the bit stream.
struct BitReader {
  uint64_t buffer = 0;  // the next bits, from the top
  uint64_t count = 0;   // number of valid bits; fewer than 64
  const uint8_t* next = nullptr;
};

// The component and the tables of one block of an MCU.
struct McuBlock {
  int component = 0;
  const HuffmanTable* dc = nullptr;
  const HuffmanTable* ac = nullptr;
};

// Decodes the coefficients of a frame, one row of MCUs at a time. Coefficients are written MCU by
// MCU, block by block, by rows of pixels within a block, into zeroed blocks. Thread-compatible. May
// be used again and again, and keeps its memory.
//
// The caller chooses one of two ways for each row: DecodeRow or SkipRow, or a track, which is
// decoded side by side with those of other images (augment/jpeg/tracks.h).
class EntropyDecoder {
 public:
  // Builds the tables and moves to the first MCU. `bytes` is the whole file that `frame` was read
  // from; both must outlive the decoding. False if libjpeg must judge the file.
  bool Start(const Frame& frame, std::string_view bytes, Level level);
  int blocks_per_mcu() const { return num_blocks_; }

  // Decodes the next row and writes MCUs [first, end) to `blocks`. False if libjpeg would or might
  // warn.
  bool DecodeRow(int first, int end, Block* blocks);
  // The same, without writing.
  bool SkipRow();

  // True if rows may be decoded in tracks.
  bool has_tracks() const { return level_ >= Level::kAvx2 && frame_->restart_interval == 0; }
  // Makes the blocks of a row, and kTrackRoom more, ready for tracks; their coefficients stay.
  void PrepareBlocks(Block* blocks) const;
  // A track that writes all MCUs of the next row to `blocks`, which has room for kTrackRoom more.
  Track StartTrack(Block* blocks) const;
  // Decodes the rest of the track's row. False as for DecodeRow.
  bool FinishTrack(Track track, Block* blocks);

 private:
  bool BuildTables(const Frame& frame);
  // Decodes `count` MCUs; blocks == nullptr: skips them.
  bool DecodeRun(int count, Block* blocks);
  bool BeginSegment();
  // True if all used bits exist and no sum of differences may overflow.
  bool InBounds() const;
  uint64_t position() const {
    return static_cast<uint64_t>(bits_.next - scan_.data()) * 8 - bits_.count;
  }

  const Frame* frame_ = nullptr;
  Level level_ = Level::kScalar;
  ScanReader scan_;
  BitReader bits_;
  int num_blocks_ = 0;  // blocks of an MCU
  std::array<McuBlock, kMaxBlocksPerMcu> blocks_;
  std::array<int32_t, kMaxComponents> dc_ = {};  // the last of each component
  int until_restart_ = 0;
  std::array<HuffmanTable, 2> dc_tables_;
  std::array<HuffmanTable, 2> ac_tables_;
};

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_ENTROPY_H_
