#include "augment/jpeg/lane_pool_internal.h"
#include "tests/augment/jpeg_testing.h"
#include "tests/fuzz/fuzz_input.h"

// JPEGs: what jpeg::RegionDecoder takes of a file, libjpeg-turbo takes without a warning, and the
// pixels are the same, for any region. Five bytes before the file choose how it is read.

namespace millrace::augment {
namespace {

constexpr int64_t kMaxPixels = 1 << 16;  // more would only be slow

// The part of `extent` that two bytes choose.
void Choose(uint8_t begin, uint8_t size, int64_t extent, int64_t* from, int64_t* length) {
  *from = extent * begin / 256;
  *length = 1 + (extent - *from - 1) * size / 255;
}

// The image in every lane of a pool at once comes out of each as `decoder` decodes it alone.
void CheckLanes(std::string_view bytes, const Region& region, int channels,
                jpeg::RegionDecoder& decoder) {
  bool strayed = false;
  const auto expected = testing::ByRegionDecoder(decoder, region, channels, &strayed);
  const auto size = static_cast<size_t>(region.height * region.width * channels);
  std::unique_ptr<uint8_t[]> pixels[jpeg::kNumLanes];
  jpeg::LanePool pool([&](int64_t tag, bool ok) {
    fuzz::Require(ok == expected.has_value() &&
                      (!ok || std::equal(expected->begin(), expected->end(), pixels[tag].get())),
                  "a lane decodes as a decoder alone does");
  });
  for (int i = 0; i < jpeg::kNumLanes; ++i) {
    pixels[i] = std::make_unique<uint8_t[]>(size);
    fuzz::Require(pool.idle().Open(bytes), "a header is read as before");
    pool.Submit(i, region, channels, pixels[i].get(), region.width * channels);
  }
  pool.Flush();
}

void Run(const uint8_t* data, size_t size) {
  const uint8_t choice = fuzz::TakeByte(data, size);
  uint8_t corners[4];
  for (uint8_t& corner : corners) corner = fuzz::TakeByte(data, size);
  const fuzz::InputFile file(data, size);
  const int channels = (choice & 1) != 0 ? 3 : 1;
  jpeg::RegionDecoder decoder((choice & 2) != 0 ? jpeg::BestLevel() : jpeg::Level::kScalar);
  if (!decoder.Open(file.text())) return;
  const int64_t height = decoder.frame().height, width = decoder.frame().width;
  if (height * width > kMaxPixels) return;
  Region region;
  Choose(corners[0], corners[2], height, &region.top, &region.height);
  Choose(corners[1], corners[3], width, &region.left, &region.width);
  fuzz::Require(
      testing::Compare(file.text(), region, channels, decoder) != testing::Agreement::kDifferent,
      "what is taken has libjpeg-turbo's pixels and no byte beside them");
  if ((choice & 4) != 0) CheckLanes(file.text(), region, channels, decoder);
  const auto reference = OpenLibjpeg(file.text());
  fuzz::Require(!reference.ok() ||
                    ((*reference)->info().height == height && (*reference)->info().width == width),
                "the two read the same size");
}

}  // namespace
}  // namespace millrace::augment

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::augment::Run(data, size);
  return 0;
}
