#include "augment/jpeg/track_pool.h"
#include "tests/augment/image_testing.h"
#include "tests/augment/jpeg/jpeg_testing.h"
#include "tests/fuzz/fuzz_input.h"

// JPEGs: what jpeg::RegionDecoder takes of a file, libjpeg-turbo takes without a warning, and the
// pixels are the same, for any region. Five bytes before the file choose how it is read: bit 0 of
// the first colour, bit 2 tracks, from bit 3 on the kernels, from bit 5 on the track; the others
// the region.

namespace millrace::augment {
namespace {

constexpr int64_t kMaxPixels = 1 << 16;  // more would only be slow

// The part of `extent` that two bytes choose.
void Choose(uint8_t begin, uint8_t size, int64_t extent, int64_t* from, int64_t* length) {
  *from = extent * begin / 256;
  *length = 1 + (extent - *from - 1) * size / 255;
}

jpeg::Level ChooseLevel(uint8_t choice) {
  constexpr jpeg::Level kLevels[] = {jpeg::Level::kScalar, jpeg::Level::kAvx2,
                                     jpeg::Level::kAvx512};
  return std::min(kLevels[(choice >> 3) % 3], jpeg::BestLevel());
}

// Images of other shapes and tables, to stand beside the one that is tested.
const std::string& Neighbour(size_t i) {
  static const std::string kNeighbours[] = {
      testing::EncodeJpeg(testing::MakeImage(61, 83, 3, 1), {.quality = 95, .optimize = true}),
      testing::EncodeJpeg(testing::MakeImage(90, 47, 3, 2),
                          {.h_samp = 2, .v_samp = 2, .quality = 60}),
      testing::EncodeJpeg(testing::MakeImage(35, 120, 1, 3), {.quality = 99})};
  return kNeighbours[i % std::size(kNeighbours)];
}

// The image and two others, each in a track of its own, and then the image in all of them; each
// comes out as a decoder alone decodes it.
void CheckTracks(std::string_view bytes, const Region& region, int channels, size_t track,
                 jpeg::Level level) {
  struct Image {
    std::string_view bytes;
    Region region;
    std::optional<std::vector<uint8_t>> expected;
    std::unique_ptr<uint8_t[]> pixels;
  };
  std::vector<Image> images(3 * jpeg::kNumTracks);
  jpeg::TrackPool pool(
      [&](int64_t tag, bool ok) {
        const Image& image = images[static_cast<size_t>(tag)];
        fuzz::Require(ok == image.expected.has_value() &&
                          (!ok || std::equal(image.expected->begin(), image.expected->end(),
                                             image.pixels.get())),
                      "a track decodes as a decoder alone does");
      },
      level);
  for (size_t i = 0; i < images.size(); ++i) {
    Image& image = images[i];
    const bool tested =
        i % jpeg::kNumTracks == track % jpeg::kNumTracks || i >= 2 * jpeg::kNumTracks;
    image.bytes = tested ? bytes : std::string_view(Neighbour(track + i));
    jpeg::RegionDecoder alone(level);
    fuzz::Require(alone.Open(image.bytes), "a header is read as before");
    image.region = tested ? region : Region{0, 0, alone.frame().height, alone.frame().width};
    bool strayed = false;
    image.expected = testing::ByRegionDecoder(alone, image.region, channels, &strayed);
    image.pixels = std::make_unique<uint8_t[]>(
        static_cast<size_t>(image.region.height * image.region.width * channels));
    fuzz::Require(pool.idle().Open(image.bytes), "a header is read as before");
    pool.Submit(static_cast<int64_t>(i), image.region, channels, image.pixels.get(),
                image.region.width * channels);
  }
  pool.Flush();
}

void Run(const uint8_t* data, size_t size) {
  const uint8_t choice = fuzz::TakeByte(data, size);
  uint8_t corners[4];
  for (uint8_t& corner : corners) corner = fuzz::TakeByte(data, size);
  const fuzz::InputFile file(data, size);
  const int channels = (choice & 1) != 0 ? 3 : 1;
  const jpeg::Level level = ChooseLevel(choice);
  jpeg::RegionDecoder decoder(level);
  if (!decoder.Open(file.text())) return;
  const int64_t height = decoder.frame().height, width = decoder.frame().width;
  if (height * width > kMaxPixels) return;
  Region region;
  Choose(corners[0], corners[2], height, &region.top, &region.height);
  Choose(corners[1], corners[3], width, &region.left, &region.width);
  fuzz::Require(
      testing::Compare(file.text(), region, channels, decoder) != testing::Agreement::kDifferent,
      "what is taken has libjpeg-turbo's pixels and no byte beside them");
  if ((choice & 4) != 0) CheckTracks(file.text(), region, channels, choice >> 5, level);
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
