#ifndef MILLRACE_TESTS_AUGMENT_JPEG_JPEG_TESTING_H_
#define MILLRACE_TESTS_AUGMENT_JPEG_JPEG_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "augment/codec/decoder.h"
#include "augment/jpeg/region_decoder.h"

// jpeg::RegionDecoder beside libjpeg-turbo, on which every test of it and its fuzz target rest.

namespace millrace::augment::testing {

inline constexpr int64_t kMaxTestPixels = 1 << 22;

// What libjpeg-turbo makes of a region, dense; nullopt: an error or a warning.
inline std::optional<std::vector<uint8_t>> ByLibjpeg(std::string_view bytes, const Region& region,
                                                     int channels) {
  auto decoder = OpenLibjpeg(bytes);
  if (!decoder.ok()) return std::nullopt;
  RunArena arena;
  const auto pixels = (*decoder)->DecodeRegion(region, channels, arena);
  if (!pixels.ok()) return std::nullopt;
  std::vector<uint8_t> out;
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* row = pixels->data + y * pixels->stride;
    out.insert(out.end(), row, row + region.width * channels);
  }
  return out;
}

// What a decoder that stands behind Open makes of a region, into memory of exactly that size with
// gaps between the rows; nullopt: it refuses. Sets `*strayed` when a byte of a gap changed.
inline std::optional<std::vector<uint8_t>> ByRegionDecoder(jpeg::RegionDecoder& decoder,
                                                           const Region& region, int channels,
                                                           bool* strayed) {
  constexpr int64_t kGap = 3;
  constexpr uint8_t kUntouched = 0xA5;
  const int64_t row_bytes = region.width * channels, stride = row_bytes + kGap;
  const auto size = static_cast<size_t>(region.height * stride - kGap);
  const auto memory = std::make_unique<uint8_t[]>(size);
  std::memset(memory.get(), kUntouched, size);
  if (!decoder.Decode(region, channels, memory.get(), stride)) return std::nullopt;
  std::vector<uint8_t> out;
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* row = memory.get() + y * stride;
    out.insert(out.end(), row, row + row_bytes);
    const uint8_t* gap_end = row + (y + 1 < region.height ? stride : row_bytes);
    if (std::any_of(row + row_bytes, gap_end, [](uint8_t b) { return b != kUntouched; })) {
      *strayed = true;
    }
  }
  return out;
}

// What comparing the two came to. Whatever RegionDecoder takes libjpeg-turbo must take too.
enum class Agreement { kRefused, kEqual, kDifferent };

// `bytes` lie in memory of exactly their size, for the sanitizers.
inline Agreement Compare(std::string_view bytes, const Region& region, int channels,
                         jpeg::RegionDecoder& decoder) {
  bool strayed = false;
  const auto ours = ByRegionDecoder(decoder, region, channels, &strayed);
  if (strayed) return Agreement::kDifferent;
  if (!ours.has_value()) return Agreement::kRefused;
  return ours == ByLibjpeg(bytes, region, channels) ? Agreement::kEqual : Agreement::kDifferent;
}

inline Region RandomRegion(std::mt19937& random, int64_t height, int64_t width) {
  Region region;
  region.height = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(height));
  region.width = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(width));
  if (random() % 4 == 0) region.width = std::min<int64_t>(region.width, 3);
  if (random() % 4 == 0) region.height = std::min<int64_t>(region.height, 3);
  const int64_t below = height - region.height + 1, beside = width - region.width + 1;
  region.top = static_cast<int64_t>(random() % static_cast<uint64_t>(below));
  region.left = static_cast<int64_t>(random() % static_cast<uint64_t>(beside));
  return region;
}

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_JPEG_JPEG_TESTING_H_
