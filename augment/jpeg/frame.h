#ifndef MILLRACE_AUGMENT_JPEG_FRAME_H_
#define MILLRACE_AUGMENT_JPEG_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace::augment::jpeg {

inline constexpr int kBlockSize = 64;  // coefficients of a block, 8 x 8
inline constexpr int kMaxComponents = 3;

// Place of the bit stream's coefficient k in a block by rows (ITU-T T.81, figure A.6).
inline constexpr std::array<uint8_t, kBlockSize> kNaturalOrder = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

struct Component {
  int id = 0;
  int h = 1;  // blocks of an MCU, across and down
  int v = 1;
  int quant = 0;  // numbers of the tables, as dc and ac
  int dc = 0;
  int ac = 0;
};

// A DHT table as it lies in the file; borrows from it.
struct HuffmanSpec {
  const uint8_t* counts = nullptr;  // codes of 1..16 bits; nullptr: there is no such table
  const uint8_t* symbols = nullptr;
  int num_symbols = 0;
};

// The contents of the markers before the first scan.
struct Frame {
  int width = 0;
  int height = 0;
  int num_components = 0;  // 1, grey, or 3, YCbCr
  std::array<Component, kMaxComponents> components;
  int max_h = 1;  // largest of the components
  int max_v = 1;
  int mcus_per_row = 0;
  int mcu_rows = 0;
  int restart_interval = 0;                                    // MCUs; 0: none
  std::array<std::array<uint16_t, kBlockSize>, 4> quant = {};  // by rows
  std::array<bool, 4> has_quant = {};
  std::array<HuffmanSpec, 2> dc;
  std::array<HuffmanSpec, 2> ac;
  size_t scan_offset = 0;  // offset of the first entropy-coded byte
};

// Reads the markers of a JPEG of one baseline scan: 8 bit, Huffman codes, grey or YCbCr of 4:4:4,
// 4:2:2, 4:2:0 or 4:4:0. False for every other kind, and wherever libjpeg would warn of damage or
// fail, or might; `*frame` is then unspecified. `*frame` borrows from `bytes`.
bool ParseFrame(std::string_view bytes, Frame* frame);

}  // namespace millrace::augment::jpeg

#endif  // MILLRACE_AUGMENT_JPEG_FRAME_H_
