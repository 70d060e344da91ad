#include <algorithm>
#include <cmath>

#include "augment/color/color.h"
#include "augment/rows/color.h"

// Ops that map each value of a channel by itself: 256 results are worked out, and the image is
// looked up. The factors of a mean or of a histogram change nothing about that.

namespace millrace::augment {
namespace {

uint8_t Cut(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

template <typename F>
ColorTable MakeTable(const F& f) {
  ColorTable table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = f(v);
  return table;
}

int Last(const Histogram& histogram) {
  int last = 255;
  while (last > 0 && histogram[static_cast<size_t>(last)] == 0) --last;
  return last;
}

}  // namespace

ColorTable InvertTable() {
  return MakeTable([](int v) { return static_cast<uint8_t>(255 - v); });
}

ColorTable PosterizeTable(int bits) {
  return MakeTable([&](int v) { return static_cast<uint8_t>(v >> (8 - bits) << (8 - bits)); });
}

ColorTable SolarizeTable(float threshold) {
  return MakeTable([&](int v) {
    return static_cast<uint8_t>(static_cast<float>(v) >= threshold ? 255 - v : v);
  });
}

// Pixels of the largest value do not count, so that it becomes 255 itself.
ColorTable EqualizeTable(const Histogram& histogram) {
  int64_t pixels = 0;
  for (const int64_t n : histogram) pixels += n;
  const int64_t step = (pixels - histogram[static_cast<size_t>(Last(histogram))]) / 255;
  if (step == 0) return MakeTable([](int v) { return static_cast<uint8_t>(v); });
  int64_t below = step / 2;
  return MakeTable([&](int v) {
    const int64_t level = below / step;
    below += histogram[static_cast<size_t>(v)];
    return static_cast<uint8_t>(std::min<int64_t>(level, 255));
  });
}

ColorTable AutocontrastTable(uint8_t least, uint8_t most) {
  const auto low = static_cast<float>(least);
  const auto high = static_cast<float>(most);
  if (high <= low) return MakeTable([](int v) { return static_cast<uint8_t>(v); });
  const float scale = (high - low) * static_cast<float>(1.0 / 255);
  return MakeTable([&](int v) { return Cut((static_cast<float>(v) - low) / scale); });
}

void ApplyTable(const ColorImage& in, const ColorTable& table, uint8_t* out) {
  LookUpRow(in.data, in.size(), table.data(), out);
}

namespace {

template <int kChannels>
using Tables = std::array<ColorTable, kChannels>;

template <int kChannels>
void ApplyTables(const ColorImage& in, const Tables<kChannels>& tables, uint8_t* out) {
  if constexpr (kChannels == 1) return ApplyTable(in, tables[0], out);
  LookUpRow3(in.data, in.pixels(), tables[0].data(), out);
}

template <int kChannels>
void EqualizeOf(const ColorImage& in, uint8_t* out) {
  // Of every fourth pixel each: counts of equal neighbours need not wait for each other.
  constexpr int kTurns = 4;
  Histogram counts[kTurns][kChannels] = {};
  const int64_t pixels = in.pixels();
  const uint8_t* from = in.data;
  int64_t i = 0;
  for (; i + kTurns <= pixels; i += kTurns) {
    for (int turn = 0; turn < kTurns; ++turn) {
      for (int c = 0; c < kChannels; ++c) ++counts[turn][c][*from++];
    }
  }
  for (; i < pixels; ++i) {
    for (int c = 0; c < kChannels; ++c) ++counts[0][c][*from++];
  }
  Tables<kChannels> tables;
  for (size_t c = 0; c < kChannels; ++c) {
    Histogram& histogram = counts[0][c];
    for (size_t v = 0; v < 256; ++v) {
      histogram[v] += counts[1][c][v] + counts[2][c][v] + counts[3][c][v];
    }
    tables[c] = EqualizeTable(histogram);
  }
  ApplyTables<kChannels>(in, tables, out);
}

}  // namespace

void Equalize(const ColorImage& in, uint8_t* out) {
  if (in.channels == 3) return EqualizeOf<3>(in, out);
  EqualizeOf<1>(in, out);
}

void Autocontrast(const ColorImage& in, uint8_t* out) {
  if (in.channels == 3) {
    uint8_t low[3], high[3];
    RangeRow3(in.data, in.pixels(), low, high);
    Tables<3> tables;
    for (size_t c = 0; c < 3; ++c) tables[c] = AutocontrastTable(low[c], high[c]);
    return ApplyTables<3>(in, tables, out);
  }
  uint8_t low = 255, high = 0;
  for (int64_t i = 0; i < in.size(); ++i) {
    low = std::min(low, in.data[i]);
    high = std::max(high, in.data[i]);
  }
  ApplyTable(in, AutocontrastTable(low, high), out);
}

}  // namespace millrace::augment
