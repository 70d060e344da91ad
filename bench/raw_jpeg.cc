// bench_raw_jpeg TAR THREADS SECONDS: what libjpeg-turbo alone can do with the regions that
// random_resized_crop draws. The images lie in memory; each thread takes the next one, decodes the
// crop's columns and rows (crop_scanline, skip_scanlines, stop behind the last row) to RGB in one
// buffer, and forgets it. No resize, no batch. Prints JSON. The limit of the imagenet row.

// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "augment/region_internal.h"

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> ReadTar(const char* path) {
  const std::unique_ptr<archive, int (*)(archive*)> tar(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(tar.get());
  std::vector<std::string> files;
  if (archive_read_open_filename(tar.get(), path, 1 << 20) != ARCHIVE_OK) return files;
  archive_entry* entry = nullptr;
  while (archive_read_next_header(tar.get(), &entry) == ARCHIVE_OK) {
    std::string bytes(static_cast<size_t>(archive_entry_size(entry)), '\0');
    const la_ssize_t n = archive_read_data(tar.get(), bytes.data(), bytes.size());
    if (n != static_cast<la_ssize_t>(bytes.size()) || !bytes.starts_with("\xFF\xD8")) continue;
    files.push_back(std::move(bytes));
  }
  return files;
}

// Returns the number of pixels of the region. libjpeg's own error handler ends the program: the
// data set is known to be good.
uint64_t DecodeCrop(const std::string& bytes, uint64_t draw, std::vector<uint8_t>& row) {
  jpeg_decompress_struct cinfo;
  jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = JCS_RGB;
  jpeg_start_decompress(&cinfo);
  millrace::RandomStream random({.seed = 1, .op = 1, .epoch = 0, .record = draw});
  const millrace::augment::Region region = millrace::augment::DrawCrop(
      cinfo.image_height, cinfo.image_width, {0.08f, 1.0f}, {3.0f / 4, 4.0f / 3}, random);
  auto left = static_cast<JDIMENSION>(region.left);
  auto width = static_cast<JDIMENSION>(region.width);
  jpeg_crop_scanline(&cinfo, &left, &width);
  jpeg_skip_scanlines(&cinfo, static_cast<JDIMENSION>(region.top));
  row.resize(std::max(row.size(), size_t{width} * 3 * static_cast<size_t>(region.height)));
  for (int64_t y = 0; y < region.height; ++y) {
    JSAMPROW line = row.data() + size_t{width} * 3 * static_cast<size_t>(y);
    jpeg_read_scanlines(&cinfo, &line, 1);
  }
  jpeg_destroy_decompress(&cinfo);
  return static_cast<uint64_t>(region.height * region.width);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_raw_jpeg TAR THREADS SECONDS\n");
    return 2;
  }
  const std::vector<std::string> files = ReadTar(argv[1]);
  const int num_threads = std::atoi(argv[2]);
  if (files.empty() || num_threads < 1) {
    std::fprintf(stderr, "%s: no JPEG, or no threads\n", argv[1]);
    return 1;
  }
  std::atomic<uint64_t> next = 0, images = 0, pixels = 0;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(std::atof(argv[3]));
  std::vector<std::jthread> threads;
  for (int i = 0; i < num_threads; ++i) {
    threads.emplace_back([&] {
      std::vector<uint8_t> row;
      while (Clock::now() < end) {
        const uint64_t draw = next.fetch_add(1, std::memory_order_relaxed);
        pixels.fetch_add(DecodeCrop(files[draw % files.size()], draw, row),
                         std::memory_order_relaxed);
        images.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  threads.clear();  // joins
  const std::chrono::duration<double> seconds = Clock::now() - start;
  std::printf(
      "{\"images\": %llu, \"threads\": %d, \"seconds\": %.3f, \"images_per_second\": %.1f, "
      "\"pixels_per_second\": %.0f}\n",
      static_cast<unsigned long long>(images.load()), num_threads, seconds.count(),
      static_cast<double>(images.load()) / seconds.count(),
      static_cast<double>(pixels.load()) / seconds.count());
  return 0;
}
