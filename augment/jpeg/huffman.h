#ifndef MILLRACE_AUGMENT_JPEG_HUFFMAN_H_
#define MILLRACE_AUGMENT_JPEG_HUFFMAN_H_

#include <array>
#include <cstdint>

#include "augment/jpeg/frame.h"

namespace millrace::augment::jpeg {

inline constexpr int kTableBits = 11;

// Steps that entries of a table add to k, the place of the last coefficient, which is -1 before a
// block's first. An end of block makes k negative; a code that needs a closer look, or damage,
// makes it greater than 63. One signed comparison finds the latter, one unsigned the end of a
// block.
inline constexpr int kEndOfBlockStep = -128;
inline constexpr int kSlowStep = 80;  // beyond what a run reaches: 62 + 16

// Codes of any length, found by comparing the next 16 bits with the limit of each length.
struct LongCodes {
  std::array<uint32_t, 17> limit = {};  // by length: codes of it are below
  std::array<int32_t, 17> offset = {};  // symbol = symbols[offset + code]
  const uint8_t* symbols = nullptr;

  // Returns the symbol whose code `bits`, the next 16, begin with; -1 if there is none.
  int Find(uint32_t bits, int* length) const {
    for (int l = 1; l <= 16; ++l) {
      if (bits >= limit[l]) continue;
      *length = l;
      return symbols[offset[l] + static_cast<int32_t>(bits >> (16 - l))];
    }
    return -1;
  }
};

// A table that is indexed by the next kTableBits bits. They hold a code and, if it fits, the value
// behind it:
//   byte 0      bits used
//   byte 1      what to add to k, signed
//   high half   the value, signed
// With kSlowStep the high half is 1 + the symbol whose value did not fit, or 0 if the code is
// longer than kTableBits or invalid; byte 0 then counts the code alone, or is 0.
struct HuffmanTable {
  std::array<uint32_t, 1 << kTableBits> entries;
  LongCodes codes;
};

// Return false if libjpeg would refuse the table. `*table` borrows from `spec`'s bytes.
bool BuildAcTable(const HuffmanSpec& spec, HuffmanTable* table);
bool BuildDcTable(const HuffmanSpec& spec, HuffmanTable* table);

// Returns the value of `size` bits (T.81, F.2.2.1). REQUIRES: 0 < size < 16.
inline int32_t Extend(uint32_t bits, int size) {
  const auto value = static_cast<int32_t>(bits);
  return value < (1 << (size - 1)) ? value - (1 << size) + 1 : value;
}

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_HUFFMAN_H_
