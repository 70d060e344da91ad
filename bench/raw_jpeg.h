#ifndef MILLRACE_BENCH_RAW_JPEG_H_
#define MILLRACE_BENCH_RAW_JPEG_H_

// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "augment/image/region.h"
#include "tests/tar_files.h"

// What the JPEG benches share: the images, the regions that random_resized_crop draws of them, and
// libjpeg-turbo decoding such a region as plainly as it can be told to.

namespace millrace::bench {

// The JPEGs of an archive; none where not all of it can be read.
inline std::vector<std::string> ReadTar(const char* path) {
  std::vector<std::string> images;
  auto files = ReadTarFiles(path);
  if (!files) return images;
  for (TarFile& file : *files) {
    if (file.bytes.starts_with("\xFF\xD8")) images.push_back(std::move(file.bytes));
  }
  return images;
}

// The region that the `draw`-th crop takes of a height x width image.
inline augment::Region DrawRegion(uint64_t draw, int64_t height, int64_t width) {
  RandomStream random({.seed = 1, .op = 1, .epoch = 0, .record = draw});
  return augment::DrawCrop(height, width, {0.08f, 1.0f}, {3.0f / 4, 4.0f / 3}, random);
}

// Decodes the region of the `draw`-th crop, or all of the image, to RGB. Returns the number of its
// pixels. libjpeg's own error handler ends the program: the data set is known to be good.
inline uint64_t RawDecode(const std::string& bytes, uint64_t draw, bool whole,
                          std::vector<uint8_t>& pixels) {
  jpeg_decompress_struct cinfo;
  jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = JCS_RGB;
  jpeg_start_decompress(&cinfo);
  augment::Region region{0, 0, cinfo.image_height, cinfo.image_width};
  auto width = static_cast<JDIMENSION>(region.width);
  if (!whole) {
    region = DrawRegion(draw, region.height, region.width);
    auto left = static_cast<JDIMENSION>(region.left);
    width = static_cast<JDIMENSION>(region.width);
    jpeg_crop_scanline(&cinfo, &left, &width);
    jpeg_skip_scanlines(&cinfo, static_cast<JDIMENSION>(region.top));
  }
  const size_t stride = size_t{width} * 3;
  pixels.resize(std::max(pixels.size(), stride * static_cast<size_t>(region.height)));
  for (int64_t y = 0; y < region.height; ++y) {
    JSAMPROW line = pixels.data() + stride * static_cast<size_t>(y);
    jpeg_read_scanlines(&cinfo, &line, 1);
  }
  jpeg_destroy_decompress(&cinfo);
  return static_cast<uint64_t>(region.height * region.width);
}

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_RAW_JPEG_H_
