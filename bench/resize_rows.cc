// bench_resize_rows TAR SECONDS: microseconds of processor time that an average crop of the images
// takes to be resized to 224 x 224, flipped, normalized and stored as float32 into a batch, by the
// fused op (augment/fused_ops.h), at each level of its kernels; and those of a copy of as many
// bytes into the batch. The crop has the mean extents of those that random_resized_crop draws, and
// lies in the caches as one that was just decoded does. Prints JSON.

#include <cstdlib>
#include <cstring>
#include <ctime>

#include "augment/fused_ops.h"
#include "augment/rows/kernels.h"
#include "bench/raw_jpeg.h"
#include "readers/image_header.h"

namespace {

using namespace millrace;  // NOLINT: a program

constexpr int64_t kSide = 224;
constexpr size_t kRowBytes = kSide * kSide * 3 * sizeof(float);
constexpr size_t kSlots = 256;

augment::Region MeanCrop(const std::vector<std::string>& files) {
  augment::Region mean;
  for (size_t i = 0; i < files.size(); ++i) {
    const auto header = readers::ReadImageHeader(files[i]);
    if (!header.ok()) continue;
    const augment::Region crop = bench::DrawRegion(i, header->height, header->width);
    mean.height += crop.height;
    mean.width += crop.width;
  }
  mean.height /= static_cast<int64_t>(files.size());
  mean.width /= static_cast<int64_t>(files.size());
  return mean;
}

// Microseconds of processor time of a call of `f(slot)`, over `seconds`.
template <typename F>
double Microseconds(double seconds, const F& f) {
  for (size_t slot = 0; slot < kSlots; ++slot) f(slot);  // first touch
  const std::clock_t start = std::clock();
  uint64_t calls = 0;
  double elapsed = 0;
  do {
    for (size_t slot = 0; slot < kSlots; ++slot) f(slot);
    calls += kSlots;
    elapsed = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  } while (elapsed < seconds);
  return elapsed / static_cast<double>(calls) * 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_resize_rows TAR SECONDS\n");
    return 2;
  }
  const std::vector<std::string> files = bench::ReadTar(argv[1]);
  if (files.empty()) {
    std::fprintf(stderr, "%s: no JPEG\n", argv[1]);
    return 1;
  }
  const double seconds = std::atof(argv[2]);
  const augment::Region crop = MeanCrop(files);
  const Shape shape{crop.height, crop.width, 3};
  std::vector<uint8_t> pixels(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>(i * 2654435761u >> 13);

  auto op = augment::MakeFusedImage(
      {.first = augment::ResizeOptions{.height = kSide, .width = kSide},
       .steps = {{"flip", augment::FlipOptions()},
                 {"normalize", augment::NormalizeOptions{.mean = {123.675f, 116.28f, 103.53f},
                                                         .stddev = {58.395f, 57.12f, 57.375f}}}}});
  if (!op.ok() || !(*op)->Resolve(Schema({{"image", DType::kU8, shape}})).ok()) return 1;
  const std::unique_ptr<std::byte[], void (*)(void*)> slab(
      static_cast<std::byte*>(std::aligned_alloc(64, kSlots * kRowBytes)), std::free);
  RunArena arena;
  const auto apply = [&](size_t slot) {
    arena.Reset();
    Run run(arena, 1, 0, {{.record = slot}});
    run.Add("image", DType::kU8).Set(0, pixels.data(), shape);
    const FieldSlots slots[] = {
        {"image", DType::kF32, {kSide, kSide, 3}, slab.get() + slot * kRowBytes}};
    run.Bind(slots);
    (*op)->Apply(run);
  };
  std::printf("{\"height\": %lld, \"width\": %lld", static_cast<long long>(crop.height),
              static_cast<long long>(crop.width));
  for (const int64_t level : augment::RowKernelLevels()) {
    augment::UseRowKernelLevel(level);
    std::printf(", \"%s\": %.2f", augment::RowKernelLevelName(level), Microseconds(seconds, apply));
    augment::UseRowKernelLevel(0);
  }
  const std::vector<std::byte> row(kRowBytes);
  std::printf(", \"copy\": %.2f}\n", Microseconds(seconds, [&](size_t slot) {
                std::memcpy(slab.get() + slot * kRowBytes, row.data(), kRowBytes);
              }));
  return 0;
}
