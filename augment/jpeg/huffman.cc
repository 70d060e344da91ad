#include "augment/jpeg/huffman.h"

#include <algorithm>

namespace millrace::augment::jpeg {
namespace {

// Codes of a length follow each other; those of the next begin at twice the next code. False when
// they do not fit: no code may be all ones.
bool MakeCodes(const HuffmanSpec& spec, LongCodes* codes) {
  uint32_t code = 0;
  int32_t index = 0;
  for (int l = 1; l <= 16; ++l) {
    codes->offset[l] = index - static_cast<int32_t>(code);
    code += spec.counts[l - 1];
    index += spec.counts[l - 1];
    if (spec.counts[l - 1] != 0 && code >= 1u << l) return false;
    codes->limit[l] = code << (16 - l);
    code <<= 1;
  }
  codes->symbols = spec.symbols;
  return true;
}

constexpr uint32_t Entry(int length, int step, int32_t high) {
  return static_cast<uint32_t>(length) | static_cast<uint32_t>(step & 0xFF) << 8 |
         static_cast<uint32_t>(high) << 16;
}

// Fills the entries that begin with a code of `length` bits, with the values of `size` bits behind
// it. `slow` is the entry when they do not fit.
uint32_t* FillValues(uint32_t* out, int bits, int length, int size, int step, uint32_t slow) {
  const int spare = bits - length - size;
  if (spare < 0) return std::fill_n(out, 1 << (bits - length), slow);
  for (uint32_t value = 0; value < 1u << size; ++value) {
    out = std::fill_n(out, 1 << spare, Entry(length + size, step, Extend(value, size)));
  }
  return out;
}

}  // namespace

bool BuildAcTable(const HuffmanSpec& spec, HuffmanTable* table) {
  if (!MakeCodes(spec, &table->codes)) return false;
  uint32_t* out = table->entries.data();
  const uint8_t* symbol = spec.symbols;
  for (int length = 1; length <= kTableBits; ++length) {
    for (int i = 0; i < spec.counts[length - 1]; ++i, ++symbol) {
      const int run = *symbol >> 4, size = *symbol & 15;
      if (size == 0) {
        const int step = run == 15 ? 16 : kEndOfBlockStep;
        out = std::fill_n(out, 1 << (kTableBits - length), Entry(length, step, 0));
      } else {
        out = FillValues(out, kTableBits, length, size, run + 1,
                         Entry(length, kSlowStep, *symbol + 1));
      }
    }
  }
  std::fill(out, table->entries.data() + table->entries.size(), Entry(0, kSlowStep, 0));
  return true;
}

bool BuildDcTable(const HuffmanSpec& spec, HuffmanTable* table) {
  if (!MakeCodes(spec, &table->codes)) return false;
  if (std::any_of(spec.symbols, spec.symbols + spec.num_symbols, [](int s) { return s > 15; })) {
    return false;
  }
  uint32_t* out = table->entries.data();
  const uint8_t* symbol = spec.symbols;
  for (int length = 1; length <= kTableBits; ++length) {
    for (int i = 0; i < spec.counts[length - 1]; ++i, ++symbol) {
      if (*symbol == 0) {
        out = std::fill_n(out, 1 << (kTableBits - length), Entry(length, 1, 0));
      } else {
        out =
            FillValues(out, kTableBits, length, *symbol, 1, Entry(length, kSlowStep, *symbol + 1));
      }
    }
  }
  std::fill(out, table->entries.data() + table->entries.size(), Entry(0, kSlowStep, 0));
  return true;
}

}  // namespace millrace::augment::jpeg
