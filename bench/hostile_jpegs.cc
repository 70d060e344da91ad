// bench_hostile_jpegs TAR ROW: processor time of one decode of each of the files, damaged ones and
// forged ones, to RGB. Rows: ours, by decode_image's defaults; limit, by libjpeg-turbo, of those
// files that the other opens, since the rest are refused by their headers. Prints JSON: the longest
// time and whose it is, and the median.

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>
// After <cstdio>: libjpeg's header needs FILE.
#include <jpeglib.h>

#include "augment/codec/decoder.h"
#include "base/run.h"
#include "tests/tar_files.h"

namespace millrace::bench {
namespace {

// Whether it was opened.
bool Decode(const std::string& bytes) {
  const augment::DecodeImageOptions options;
  const auto decoder = augment::OpenImage(bytes, options);
  if (!decoder.ok()) return false;
  RunArena arena;
  const readers::ImageHeader& info = (*decoder)->info();
  const std::unique_ptr<uint8_t[]> out(
      new uint8_t[static_cast<size_t>(info.height * info.width * options.channels)]);
  static_cast<void>((*decoder)->DecodeAll(options.channels, arena, out.get()));
  return true;
}

struct Errors {
  jpeg_error_mgr manager;
  std::jmp_buf out;
};

[[noreturn]] void Leave(j_common_ptr info) {
  std::longjmp(reinterpret_cast<Errors*>(info->err)->out, 1);
}

// Row by row into `row`, to the end or the first error; warnings count for nothing. The row is the
// caller's: what changes in here between setjmp and longjmp is lost.
void DecodeRaw(const std::string& bytes, std::vector<uint8_t>& row) {
  jpeg_decompress_struct info;
  Errors errors;
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = Leave;
  errors.manager.output_message = [](j_common_ptr) {};
  jpeg_create_decompress(&info);
  if (setjmp(errors.out) == 0) {
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
    jpeg_start_decompress(&info);
    row.resize(size_t{info.output_width} * static_cast<size_t>(info.output_components));
    while (info.output_scanline < info.output_height) {
      JSAMPROW line = row.data();
      jpeg_read_scanlines(&info, &line, 1);
    }
  }
  jpeg_destroy_decompress(&info);
}

template <typename Work>
double Milliseconds(const Work& work) {
  const std::clock_t start = std::clock();
  work();
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

int Main(const char* tar, std::string_view row) {
  const std::vector<TarFile> files = ReadTarFiles(tar).value_or(std::vector<TarFile>());
  if (files.empty() || (row != "ours" && row != "limit")) {
    std::fprintf(stderr, "%s: no files, or no row %s\n", tar, std::string(row).c_str());
    return 1;
  }
  std::vector<double> times;
  const TarFile* slowest = nullptr;
  double most = -1;
  std::vector<uint8_t> pixels;
  for (const TarFile& file : files) {
    bool opened = false;
    double ms = Milliseconds([&] { opened = Decode(file.bytes); });
    if (row == "limit") {
      if (!opened) continue;
      ms = Milliseconds([&] { DecodeRaw(file.bytes, pixels); });
    }
    times.push_back(ms);
    if (ms > most) slowest = &file;
    most = std::max(most, ms);
  }
  if (slowest == nullptr) return 1;
  std::ranges::nth_element(times, times.begin() + static_cast<ptrdiff_t>(times.size() / 2));
  std::printf("{\"files\": %zu, \"max_ms\": %.3f, \"median_ms\": %.4f, \"file\": \"%s\"}\n",
              times.size(), most, times[times.size() / 2], slowest->name.c_str());
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_hostile_jpegs TAR ROW\n");
    return 2;
  }
  return millrace::bench::Main(argv[1], argv[2]);
}
