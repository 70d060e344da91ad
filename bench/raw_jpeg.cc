// bench_raw_jpeg TAR THREADS SECONDS: what libjpeg-turbo alone can do with the regions that
// random_resized_crop draws. The images lie in memory; each thread takes the next one, decodes the
// crop's columns and rows (crop_scanline, skip_scanlines, stop behind the last row) to RGB in one
// buffer, and forgets it. No resize, no batch. Prints JSON. The limit of the imagenet row.

#include "bench/raw_jpeg.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_raw_jpeg TAR THREADS SECONDS\n");
    return 2;
  }
  const std::vector<std::string> files = millrace::bench::ReadTar(argv[1]);
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
      std::vector<uint8_t> pixel_row;
      while (Clock::now() < end) {
        const uint64_t draw = next.fetch_add(1, std::memory_order_relaxed);
        pixels.fetch_add(
            millrace::bench::RawDecode(files[draw % files.size()], draw, false, pixel_row),
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
