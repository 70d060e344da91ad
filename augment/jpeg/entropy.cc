#include "augment/jpeg/entropy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "augment/jpeg/target.h"
#include "base/big_endian.h"

// The innermost loop of decoding: a symbol is looked up with its run and its value, and one
// comparison tells the common case from all others (augment/jpeg/huffman.h). The bit buffer is
// refilled without a branch to at least 56 bits, enough for one DC coefficient and four AC
// coefficients that the tables answer at once. A region's neighbours take the same loop, which then
// stores nothing: every code has to be looked at, since only it tells where the next begins.

namespace millrace::augment::jpeg {
namespace {

// To at least 56 bits.
MILLRACE_INLINE void Refill(BitReader& bits) {
  bits.buffer |= LoadBigEndianU64(bits.next) >> bits.count;
  bits.next += (63 - bits.count) >> 3;
  bits.count |= 56;
}

MILLRACE_INLINE void Use(BitReader& bits, uint32_t count) {
  bits.buffer <<= count & 63;
  bits.count -= count;
}

MILLRACE_INLINE int32_t TakeValue(BitReader& bits, int size) {
  const auto raw = static_cast<uint32_t>(bits.buffer >> (64 - size));
  Use(bits, static_cast<uint32_t>(size));
  return Extend(raw, size);
}

// The symbol of a code that is too long for the tables; -1: it is none.
inline int TakeLongCode(BitReader& bits, const LongCodes& codes) {
  int length = 0;
  const int symbol = codes.Find(static_cast<uint32_t>(bits.buffer >> 48), &length);
  Use(bits, static_cast<uint32_t>(length));
  return symbol;
}

// Takes a DC difference that the table does not hold. False: no such code.
inline bool TakeSlowDc(BitReader& bits, const HuffmanTable& table, uint32_t entry, int32_t* value) {
  int size = static_cast<int>(entry >> 16) - 1;
  if (size < 0) size = TakeLongCode(bits, table.codes);
  if (size < 0) return false;
  *value = size == 0 ? 0 : TakeValue(bits, size);
  Refill(bits);
  return true;
}

// Takes an AC coefficient that the table does not hold. Returns what to add to k; kEndOfBlockStep
// at the end of the block, and a step too far where there is no such code.
inline int TakeSlowAc(BitReader& bits, const HuffmanTable& table, uint32_t entry, int32_t* value) {
  Refill(bits);
  int symbol = static_cast<int>(entry >> 16) - 1;
  if (symbol < 0) symbol = TakeLongCode(bits, table.codes);
  *value = 0;
  if (symbol < 0) return kBlockSize;
  const int size = symbol & 15;
  if (size == 0 && symbol != 0xF0) return kEndOfBlockStep;
  if (size != 0) *value = TakeValue(bits, size);
  Refill(bits);
  return (symbol >> 4) + 1;
}

// Takes the AC coefficients of a block; the buffer holds at least 45 bits. False: damaged.
template <bool kStore>
MILLRACE_INLINE bool TakeAc(BitReader& bits, const HuffmanTable& table,
                            [[maybe_unused]] int16_t* block) {
  const uint32_t* const entries = table.entries.data();
  int k = 0;
  for (;;) {
    uint32_t entry = 0;
#define MILLRACE_TAKE_ONE                                                           \
  entry = entries[bits.buffer >> (64 - kTableBits)];                                \
  Use(bits, entry & 0xFF);                                                          \
  k += static_cast<int8_t>(entry >> 8);                                             \
  if (__builtin_expect(static_cast<uint32_t>(k) >= kBlockSize - 1, 0)) goto ending; \
  if constexpr (kStore) block[kNaturalOrder[k]] = static_cast<int16_t>(entry >> 16)
    MILLRACE_TAKE_ONE;
    MILLRACE_TAKE_ONE;
    MILLRACE_TAKE_ONE;
    MILLRACE_TAKE_ONE;
#undef MILLRACE_TAKE_ONE
    Refill(bits);
    continue;
  ending:
    if (k < 0) return true;
    auto value = static_cast<int32_t>(entry) >> 16;
    if (k >= kSlowStep) {
      k -= kSlowStep;
      const int step = TakeSlowAc(bits, table, entry, &value);
      if (step == kEndOfBlockStep) return true;
      k += step;
    }
    if (k >= kBlockSize) return false;
    if constexpr (kStore) block[kNaturalOrder[k]] = static_cast<int16_t>(value);
    if (k == kBlockSize - 1) return true;
  }
}

struct RunArgs {
  const McuBlock* blocks;
  int num_blocks;
  int count;           // MCUs
  Block* out;          // nullptr: nowhere
  const uint8_t* end;  // no block may begin with more read
};

MILLRACE_INLINE bool DecodeMcus(BitReader& reader, int32_t* dc, const RunArgs& args) {
  BitReader bits = reader;
  Block* out = args.out;
  for (int mcu = 0; mcu < args.count; ++mcu) {
    for (int i = 0; i < args.num_blocks; ++i) {
      const McuBlock& block = args.blocks[i];
      if (bits.next > args.end) return false;
      Refill(bits);
      const uint32_t entry = block.dc->entries[bits.buffer >> (64 - kTableBits)];
      Use(bits, entry & 0xFF);
      auto difference = static_cast<int32_t>(entry) >> 16;
      if (static_cast<int8_t>(entry >> 8) == kSlowStep &&
          !TakeSlowDc(bits, *block.dc, entry, &difference)) {
        return false;
      }
      dc[block.component] += difference;
      if (out == nullptr) {
        if (!TakeAc<false>(bits, *block.ac, nullptr)) return false;
        continue;
      }
      if (!TakeAc<true>(bits, *block.ac, out->coefficients)) return false;
      out->coefficients[0] = static_cast<int16_t>(dc[block.component]);
      ++out;
    }
  }
  reader = bits;
  return true;
}

bool DecodeMcusPlain(BitReader& reader, int32_t* dc, const RunArgs& args) {
  return DecodeMcus(reader, dc, args);
}

#if MILLRACE_JPEG_X86
MILLRACE_TARGET_AVX2 bool DecodeMcusBmi2(BitReader& reader, int32_t* dc, const RunArgs& args) {
  return DecodeMcus(reader, dc, args);
}
#endif

}  // namespace

bool EntropyDecoder::Start(const Frame& frame, std::string_view bytes, Level level) {
  frame_ = &frame;
  level_ = level;
  if (!BuildTables(frame)) return false;
  num_blocks_ = 0;
  for (int c = 0; c < frame.num_components; ++c) {
    const Component& component = frame.components[c];
    for (int i = 0; i < component.h * component.v; ++i) {
      blocks_[num_blocks_++] = {c, &dc_tables_[component.dc], &ac_tables_[component.ac]};
    }
  }
  scan_.Start(bytes.substr(frame.scan_offset), level);
  return BeginSegment();
}

bool EntropyDecoder::BuildTables(const Frame& frame) {
  bool has_dc[2] = {}, has_ac[2] = {};
  for (int c = 0; c < frame.num_components; ++c) {
    const Component& component = frame.components[c];
    if (!std::exchange(has_dc[component.dc], true) &&
        !BuildDcTable(frame.dc[component.dc], &dc_tables_[component.dc])) {
      return false;
    }
    if (!std::exchange(has_ac[component.ac], true) &&
        !BuildAcTable(frame.ac[component.ac], &ac_tables_[component.ac])) {
      return false;
    }
  }
  return true;
}

bool EntropyDecoder::BeginSegment() {
  if (!scan_.Next()) return false;
  bits_ = {.next = scan_.data()};
  dc_ = {};
  until_restart_ = frame_->restart_interval;
  return true;
}

bool EntropyDecoder::InBounds() const {
  // A row adds less than 2^30, so that no sum overflows before it is seen here.
  return position() <= scan_.num_bits() && std::all_of(dc_.begin(), dc_.end(), [](int32_t dc) {
           return dc >> 29 == 0 || dc >> 29 == -1;
         });
}

bool EntropyDecoder::DecodeRun(int count, Block* blocks) {
  while (count > 0) {
    int now = count;
    if (frame_->restart_interval != 0) {
      if (until_restart_ == 0) {
        // Only the bits that fill a byte may be left; libjpeg warns of more.
        if (scan_.num_bits() - position() >= 8 || !BeginSegment()) return false;
      }
      now = std::min(now, until_restart_);
      until_restart_ -= now;
    }
    const RunArgs args{blocks_.data(), num_blocks_, now, blocks,
                       scan_.data() + scan_.num_bits() / 8 + 8};
#if MILLRACE_JPEG_X86
    const auto decode = level_ >= Level::kAvx2 ? DecodeMcusBmi2 : DecodeMcusPlain;
#else
    const auto decode = DecodeMcusPlain;
#endif
    if (!decode(bits_, dc_.data(), args) || !InBounds()) return false;
    count -= now;
    if (blocks != nullptr) blocks += ptrdiff_t{now} * num_blocks_;
  }
  return true;
}

bool EntropyDecoder::DecodeRow(int first, int end, Block* blocks) {
  return DecodeRun(first, nullptr) && DecodeRun(end - first, blocks) &&
         DecodeRun(frame_->mcus_per_row - end, nullptr);
}

bool EntropyDecoder::SkipRow() { return DecodeRun(frame_->mcus_per_row, nullptr); }

void EntropyDecoder::PrepareBlocks(Block* blocks) const {
  const int count = frame_->mcus_per_row * num_blocks_ + kTrackRoom;
  for (int i = 0, at = 0; i < count; ++i) {
    blocks[i].ac = blocks_[at].ac;
    at = at + 1 == num_blocks_ ? 0 : at + 1;
    blocks[i].next_dc = blocks_[at].dc;
  }
}

Track EntropyDecoder::StartTrack(Block* blocks) const {
  Track track;
  track.position = reinterpret_cast<uintptr_t>(scan_.data()) * 8 + position();
  track.table = blocks_[0].dc;
  track.block = blocks;
  track.end = blocks + ptrdiff_t{frame_->mcus_per_row} * num_blocks_;
  track.last_position = reinterpret_cast<uintptr_t>(scan_.data()) * 8 + scan_.num_bits();
  return track;
}

bool EntropyDecoder::FinishTrack(Track track, Block* blocks) {
  if (!track.ok || !DecodeTrack(track)) return false;
  const uint64_t at = track.position - reinterpret_cast<uintptr_t>(scan_.data()) * 8;
  bits_ = {.next = scan_.data() + at / 8};
  Refill(bits_);
  Use(bits_, static_cast<uint32_t>(at % 8));
  for (int mcu = 0; mcu < frame_->mcus_per_row; ++mcu) {
    for (int i = 0; i < num_blocks_; ++i, ++blocks) {
      int16_t& dc = blocks->coefficients[0];
      dc = static_cast<int16_t>(dc_[blocks_[i].component] += dc);
    }
  }
  return InBounds();
}

}  // namespace millrace::augment::jpeg
