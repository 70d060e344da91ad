// bench_png_rows ROW SECONDS: PNGs of 28 x 28 grey pixels, files in memory, decoded to grey per
// second of processor time of one core. Rows: small, by decode_image in runs of 256; small_limit,
// by libspng alone, with a context for each file as the library needs one. Prints JSON.

#include <spng.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "augment/image_ops.h"
#include "base/run.h"
#include "readers/png_encoder.h"

namespace millrace::bench {
namespace {

constexpr int64_t kSide = 28;
constexpr int64_t kRows = 256;
constexpr size_t kFiles = 4096;

// Strokes on black, as handwritten digits are: a file has about 250 bytes.
std::vector<std::string> MakeFiles() {
  std::mt19937 random(1);
  std::vector<std::string> files;
  while (files.size() < kFiles) {
    std::vector<uint8_t> pixels(kSide * kSide);
    for (int stroke = 0; stroke < 3; ++stroke) {
      int64_t y = 4 + static_cast<int64_t>(random() % 20),
              x = 4 + static_cast<int64_t>(random() % 20);
      for (int i = 0; i < 24; ++i) {
        pixels[static_cast<size_t>(y * kSide + x)] = static_cast<uint8_t>(128 + random() % 128);
        y = std::min<int64_t>(std::max<int64_t>(y + static_cast<int64_t>(random() % 3) - 1, 0), 27);
        x = std::min<int64_t>(std::max<int64_t>(x + static_cast<int64_t>(random() % 3) - 1, 0), 27);
      }
    }
    auto png = readers::EncodePng(pixels, kSide, kSide, 1);
    if (!png.ok()) std::abort();
    files.push_back(*std::move(png));
  }
  return files;
}

void DecodeRun(const augment::DecodeImageOptions& options, const Op& op, RunArena& arena,
               const std::string* files, uint8_t* slab) {
  arena.Reset();
  Run run(arena, 1, 0, std::vector<SampleId>(kRows));
  const FieldSlots slots[] = {
      {options.output, DType::kU8, Shape{kSide, kSide, 1}, reinterpret_cast<std::byte*>(slab)}};
  Column& encoded = run.Add(options.field, DType::kBytes);
  for (int64_t row = 0; row < kRows; ++row) {
    encoded.Set(row, files[row].data(), Shape{static_cast<int64_t>(files[row].size())});
  }
  run.Bind(slots);
  op.Apply(run);
  if (!run.all_ok()) std::abort();
}

void DecodeRaw(const std::string& file, uint8_t* out) {
  spng_ctx* context = spng_ctx_new(0);
  if (context == nullptr || spng_set_png_buffer(context, file.data(), file.size()) != 0 ||
      spng_decode_image(context, out, kSide * kSide, SPNG_FMT_G8, 0) != 0) {
    std::abort();
  }
  spng_ctx_free(context);
}

int Main(std::string_view row, double seconds) {
  const std::vector<std::string> files = MakeFiles();
  const augment::DecodeImageOptions options{.channels = 1};
  auto op = augment::MakeDecodeImage(options);
  const Schema schema({{options.field, DType::kBytes, Shape{Shape::kUnknown}}});
  if (!op.ok() || !(*op)->Resolve(schema).ok()) return 1;
  RunArena arena;
  std::vector<uint8_t> slab(kRows * kSide * kSide);
  uint64_t images = 0;
  const std::clock_t start = std::clock();
  double used = 0;
  do {
    for (size_t i = 0; i < files.size(); i += kRows) {
      if (row == "small") {
        DecodeRun(options, **op, arena, &files[i], slab.data());
        continue;
      }
      for (size_t j = 0; j < kRows; ++j) DecodeRaw(files[i + j], &slab[j * kSide * kSide]);
    }
    images += files.size();
    used = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  } while (used < seconds);
  std::printf("{\"images\": %llu, \"per_second\": %.1f}\n", static_cast<unsigned long long>(images),
              static_cast<double>(images) / used);
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc != 3 ||
      (std::string_view(argv[1]) != "small" && std::string_view(argv[1]) != "small_limit")) {
    std::fprintf(stderr, "usage: bench_png_rows small|small_limit SECONDS\n");
    return 2;
  }
  return millrace::bench::Main(argv[1], std::atof(argv[2]));
}
