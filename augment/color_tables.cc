#include <algorithm>
#include <cmath>

#include "augment/color_internal.h"

// Ops that map each value of a channel by itself: 256 results are worked out, and the image is looked
// up. The factors of a mean or of a histogram change nothing about that.

namespace millrace::augment {
namespace {

uint8_t Cut(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

template <typename F>
ColorTable MakeTable(const F& f) {
  ColorTable table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = f(v);
  return table;
}

int First(const Histogram& histogram) {
  return static_cast<int>(std::ranges::find_if(histogram, [](int64_t n) { return n > 0; }) -
                          histogram.begin());
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

ColorTable AutocontrastTable(const Histogram& histogram) {
  const auto low = static_cast<float>(First(histogram));
  const auto high = static_cast<float>(Last(histogram));
  if (high <= low) return MakeTable([](int v) { return static_cast<uint8_t>(v); });
  const float scale = (high - low) * static_cast<float>(1.0 / 255);
  return MakeTable([&](int v) { return Cut((static_cast<float>(v) - low) / scale); });
}

void ApplyTable(const ColorImage& in, const ColorTable& table, uint8_t* out) {
  std::transform(in.data, in.data + in.size(), out, [&](uint8_t v) { return table[v]; });
}

namespace {

// With the number of channels known, one pass counts and one looks up.
template <int kChannels>
void ApplyByKnownChannels(const ColorImage& in, ColorTable (*make)(const Histogram&),
                          uint8_t* out) {
  // Of every other pixel each: counts of equal neighbours need not wait for each other.
  static_assert(kChannels <= 3);
  uint32_t counts[2][kChannels][256] = {};
  const int64_t pixels = in.pixels();
  for (int64_t i = 0; i < pixels; ++i) {
    for (int c = 0; c < kChannels; ++c) ++counts[i & 1][c][in.data[i * kChannels + c]];
  }
  ColorTable tables[kChannels];
  for (int c = 0; c < kChannels; ++c) {
    Histogram histogram;
    for (size_t v = 0; v < 256; ++v) histogram[v] = int64_t{counts[0][c][v]} + counts[1][c][v];
    tables[c] = make(histogram);
  }
  for (int64_t i = 0; i < pixels; ++i) {
    for (int c = 0; c < kChannels; ++c) {
      out[i * kChannels + c] = tables[c][in.data[i * kChannels + c]];
    }
  }
}

}  // namespace

void ApplyByChannel(const ColorImage& in, ColorTable (*make)(const Histogram&), uint8_t* out) {
  const int64_t channels = in.channels;
  const bool countable = in.pixels() <= int64_t{UINT32_MAX};
  if (channels == 3 && countable) return ApplyByKnownChannels<3>(in, make, out);
  if (channels == 1 && countable) return ApplyByKnownChannels<1>(in, make, out);
  for (int64_t c = 0; c < channels; ++c) {
    Histogram histogram{};
    for (int64_t i = c; i < in.size(); i += channels) ++histogram[in.data[i]];
    const ColorTable table = make(histogram);
    for (int64_t i = c; i < in.size(); i += channels) out[i] = table[in.data[i]];
  }
}

}  // namespace millrace::augment
