// bench_jpeg_rows TAR ROW SECONDS: images decoded to RGB per second of processor time of one core,
// the files in memory. Rows: region, the regions that random_resized_crop draws; full, all of each
// image; region_single and full_single, one image after the other instead of a few in turns;
// region_limit and full_limit, the same by libjpeg-turbo. Goes through all files as often as the
// time allows. Prints JSON.

#include <cstdlib>
#include <ctime>
#include <map>
#include <string_view>

#include "augment/jpeg/track_pool.h"
#include "bench/raw_jpeg.h"

namespace {

using millrace::augment::Region;
using millrace::augment::jpeg::RegionDecoder;
using millrace::augment::jpeg::TrackPool;

struct Row {
  bool whole = false;
  bool single = false;
  bool raw = false;
};

// Decodes each file, the first as draw `draw`. Returns for how many libjpeg-turbo had to help.
uint64_t DecodeAll(const std::vector<std::string>& files, uint64_t draw, Row row) {
  uint64_t helped = 0;
  std::map<const RegionDecoder*, std::vector<uint8_t>> pixels;
  TrackPool pool([&](int64_t, bool ok) { helped += ok ? 0 : 1; });
  for (const std::string& bytes : files) {
    RegionDecoder& decoder = pool.idle();
    // As many buffers as there can be images in the pool.
    std::vector<uint8_t>& out = pixels[&decoder];
    if (row.raw || !decoder.Open(bytes)) {
      helped += row.raw ? 0 : 1;
      millrace::bench::RawDecode(bytes, draw++, row.whole, out);
      continue;
    }
    Region region{0, 0, decoder.frame().height, decoder.frame().width};
    if (!row.whole) region = millrace::bench::DrawRegion(draw, region.height, region.width);
    ++draw;
    const int64_t stride = region.width * 3;
    out.resize(std::max(out.size(), static_cast<size_t>(stride * region.height)));
    if (row.single) {
      helped += decoder.Decode(region, 3, out.data(), stride) ? 0 : 1;
    } else {
      pool.Submit(0, region, 3, out.data(), stride);
    }
  }
  pool.Flush();
  return helped;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_jpeg_rows TAR ROW SECONDS\n");
    return 2;
  }
  const std::vector<std::string> files = millrace::bench::ReadTar(argv[1]);
  const std::string_view name = argv[2];
  const Row row{name.starts_with("full"), name.ends_with("_single"), name.ends_with("_limit")};
  if (files.empty() || (!row.whole && !name.starts_with("region"))) {
    std::fprintf(stderr, "%s: no JPEG, or no row %s\n", argv[1], argv[2]);
    return 1;
  }
  uint64_t images = 0, helped = 0;
  const std::clock_t start = std::clock();
  double seconds = 0;
  do {
    helped += DecodeAll(files, images, row);
    images += files.size();
    seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  } while (seconds < std::atof(argv[3]));
  if (helped > 0) {  // an image that is only refused costs little
    std::fprintf(stderr, "%s: %llu images were refused, so %s says nothing\n", argv[1],
                 static_cast<unsigned long long>(helped), argv[2]);
    return 1;
  }
  std::printf("{\"images\": %llu, \"per_second\": %.1f}\n", static_cast<unsigned long long>(images),
              static_cast<double>(images) / seconds);
  return 0;
}
