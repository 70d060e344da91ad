#include "augment/jpeg/tracks.h"

#include "augment/jpeg/frame.h"
#include "augment/jpeg/target.h"
#include "base/big_endian.h"

// Decoding a Huffman code is a chain: a lookup tells where the next begins. One stream leaves most
// of a processor idle, and the end of a block, which no predictor guesses, stops the rest. Here the
// symbols of several images take turns, and nothing in a turn depends on the data but addresses: a
// symbol is stored wherever it belongs, and the end of a block moves the track on by conditional
// moves, to the next block and its DC table. The moves are in assembly because g++ makes branches
// of them. Only what the table does not hold, and damage, is a branch.
//
// A track is four values in that loop: bits, table, k and block. Three tracks and what a turn needs
// fit the 15 registers; that the tables are found through the block (augment/jpeg/block.h) and the
// places of coefficients on the stack saves the others. A mispredicted branch costs mostly the
// work behind it: a value that does not fit the table is taken in registers, since a track that is
// stored and loaded again waits for its own stores.
//
// Measured over crops of 500 photographs, one core, g++ 12: 2.4 times libjpeg-turbo. clang 16 makes
// nothing faster of this file.
//
// An end of block stores its zero too, as the DC coefficient of the block behind, which comes next.

namespace millrace::augment::jpeg {
namespace {

constexpr int kSymbolsPerLoad = 5;  // of at most 11 bits, of at least 56
static_assert(kSymbolsPerLoad * kTableBits <= 56);
constexpr int kMinBlocksLeft = 3;  // so many may end in that time
static_assert(kMinBlocksLeft <= kTrackRoom);
// Added to k where it is an index, for negative k.
constexpr int kPlaceOfZero = 128;
constexpr int kNextBlock = sizeof(Block) / sizeof(int16_t);  // from one coefficient to the next's
static_assert(kNextBlock < 256, "a place is a byte");

// Where a coefficient is stored; negative k is an end of block.
using Places = std::array<uint8_t, kPlaceOfZero + kBlockSize>;
constexpr Places MakePlaces() {
  Places places{};
  for (int i = 0; i < kPlaceOfZero; ++i) places[i] = kNextBlock;
  for (int k = 0; k < kBlockSize; ++k) places[kPlaceOfZero + k] = kNaturalOrder[k];
  return places;
}
constexpr Places kPlaces = MakePlaces();

// The bits at `position`, from the top, at least 57 less one: the lowest is set, so that the zeros
// behind it tell how many have been shifted out.
MILLRACE_INLINE uint64_t Load(uint64_t position) {
  const uint64_t word = LoadBigEndianU64(reinterpret_cast<const uint8_t*>(position >> 3));
  return word << (position & 7) | 1;
}

MILLRACE_INLINE void CountUsed(Track& track, uint64_t bits) {
  track.position += static_cast<uint64_t>(std::countr_zero(bits));
}

// The value of the `size` bits that `bits` begins with. REQUIRES: size < 16.
MILLRACE_INLINE int32_t TopValue(uint32_t bits, int size) {
  const auto value = static_cast<int32_t>(bits >> 1 >> (31 - size));
  const int32_t negative = bits >> 31 != 0 ? 0 : -1;
  return value + (negative << size) - negative;
}

void NextBlock(Track& track) {
  track.table = track.block->next_dc;
  ++track.block;
  track.k = -1;
}

// Takes the value of a symbol that the table holds without it: `*entry` has been looked up, counted
// and added, and becomes one with the value. False for every other symbol.
MILLRACE_INLINE bool TakeLargeValue(Track& track, uint32_t* entry) {
  const int symbol = static_cast<int>(*entry >> 16) - 1;
  const int64_t k = track.k - kSlowStep + (symbol >> 4) + 1;
  if (static_cast<int8_t>(*entry >> 8) != kSlowStep || symbol < 0 || k >= kBlockSize) return false;
  const int size = symbol & 15;
  const auto bits = static_cast<uint32_t>(Load(track.position) >> 32);
  *entry = static_cast<uint32_t>(TopValue(bits, size)) << 16;
  track.k = k;
  track.position += static_cast<uint64_t>(size);
  return true;
}

// Takes a symbol whose code is longer than the table's: `entry` has been looked up and added. False
// when it is none, or damaged.
bool TakeLongCode(Track& track, uint32_t entry) {
  if (static_cast<int8_t>(entry >> 8) != kSlowStep || entry >> 16 != 0) return false;
  track.k -= kSlowStep;
  const uint64_t bits = Load(track.position);
  int length = 0;
  const int symbol = track.table->codes.Find(static_cast<uint32_t>(bits >> 48), &length);
  if (symbol < 0) return false;
  const int size = symbol & 15;
  const bool is_dc = track.k < 0;
  track.position += static_cast<uint64_t>(length + size);
  if (!is_dc && size == 0 && symbol != 0xF0) {
    NextBlock(track);
    return true;
  }
  track.k += (symbol >> 4) + 1;
  if (track.k >= kBlockSize) return false;
  const auto value_bits = static_cast<uint32_t>(bits << length >> 32);
  track.block->coefficients[kNaturalOrder[track.k]] =
      static_cast<int16_t>(TopValue(value_bits, size));
  track.table = track.block->ac;
  if (track.k == kBlockSize - 1) NextBlock(track);
  return true;
}

// The same; damage ends the track's row, so that it is stopped at next. The few symbols that it
// takes until then go to the room behind the row's last block.
__attribute__((noinline)) void TakeRareSymbol(Track& track, uint32_t entry) {
  if (TakeLongCode(track, entry)) return;
  track.ok = false;
  NextBlock(track);
  track.position = track.last_position;
  track.block = track.end;
}

// Takes one symbol off `bits`, which were loaded at the track's position and are counted later.
MILLRACE_INLINE void Take(Track& track, uint64_t& bits, const Places& places) {
  uint32_t entry = track.table->entries[bits >> (64 - kTableBits)];
  bits <<= entry & 63;
  track.k += static_cast<int8_t>(entry >> 8);
  if (__builtin_expect(track.k >= kBlockSize, 0)) {
    CountUsed(track, bits);
    const bool stored = !TakeLargeValue(track, &entry);
    if (stored) {
      Track copy = track;  // so that the track itself needs no address
      TakeRareSymbol(copy, entry);
      track = copy;
    }
    bits = Load(track.position);
    if (stored) return;
  }
  int16_t* const coefficients = track.block->coefficients;
  const auto place = places[static_cast<size_t>(track.k + kPlaceOfZero)];
  coefficients[place] = static_cast<int16_t>(entry >> 16);
  const HuffmanTable* table = track.block->ac;
#if MILLRACE_JPEG_X86
  static constexpr int64_t kBeforeFirst = -1;
  Block* const block = track.block;
  asm("cmpq $63, %[k]\n\t"
      "cmovaeq %[next_dc], %[table]\n\t"
      "cmovaeq %[next_block], %[block]\n\t"
      "cmovaeq %[before], %[k]"
      : [k] "+&r"(track.k), [table] "+&r"(table), [block] "+&r"(track.block)
      : [next_dc] "m"(block->next_dc), [next_block] "r"(block + 1), [before] "m"(kBeforeFirst)
      : "cc");
  track.table = table;
#else
  track.table = table;
  if (static_cast<uint64_t>(track.k) >= kBlockSize - 1) NextBlock(track);
#endif
}

MILLRACE_INLINE bool MustStop(const Track& track) {
  return track.end - track.block <= kMinBlocksLeft || track.position > track.last_position;
}

#if MILLRACE_JPEG_X86
#define MILLRACE_TRACKS_TARGET MILLRACE_TARGET_AVX2
#else
#define MILLRACE_TRACKS_TARGET
#endif

}  // namespace

MILLRACE_TRACKS_TARGET int DecodeTracks(Track* const* tracks) {
  Track a = *tracks[0], b = *tracks[1], c = *tracks[2];
  Places places = kPlaces;
  asm("" : "+m"(places));  // or the compiler reads kPlaces instead, and needs a register for it
  int stopped = -1;
  while (stopped < 0) {
    if (MustStop(a)) stopped = 0;
    if (MustStop(b)) stopped = 1;
    if (MustStop(c)) stopped = 2;
    if (stopped >= 0) break;
    uint64_t bits_a = Load(a.position), bits_b = Load(b.position), bits_c = Load(c.position);
    for (int i = 0; i < kSymbolsPerLoad; ++i) {
      Take(a, bits_a, places);
      Take(b, bits_b, places);
      Take(c, bits_c, places);
    }
    CountUsed(a, bits_a);
    CountUsed(b, bits_b);
    CountUsed(c, bits_c);
  }
  *tracks[0] = a;
  *tracks[1] = b;
  *tracks[2] = c;
  return stopped;
}

MILLRACE_TRACKS_TARGET bool DecodeTrack(Track& track) {
  Track a = track;
  while (a.ok && a.block < a.end) {
    if (a.position > a.last_position) return false;
    uint64_t bits = Load(a.position);
    for (int i = 0; i < kSymbolsPerLoad && a.ok && a.block < a.end; ++i) Take(a, bits, kPlaces);
    CountUsed(a, bits);
  }
  track = a;
  return a.ok;
}

}  // namespace millrace::augment::jpeg
