// bench_image_rows SECONDS: microseconds of processor time that ops on images take for one, by
// itself and in the caches: uint8, 224 x 224, three channels. Resizes are to that size, of the 273
// x 276 pixels that random_resized_crop takes of a photograph on average. At each level of the
// kernels; and those of a copy of as many bytes. Prints JSON: {"copy": ..., LEVEL: {OP: ..., ...},
// ...}.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "augment/color_ops.h"
#include "augment/distort_ops.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "augment/rows/kernels.h"
#include "bench/print_rate.h"

namespace millrace::bench {
namespace {

using namespace millrace::augment;  // NOLINT: a program

constexpr int64_t kSide = 224;
const Shape kImage{kSide, kSide, 3};
const Shape kCrop{273, 276, 3};

struct Row {
  const char* name;
  absl::StatusOr<std::unique_ptr<Op>> op;
  Shape in = kImage;
};

absl::StatusOr<std::unique_ptr<Op>> Resize(ResizeMethod method, bool antialias) {
  return MakeResize({.height = kSide, .width = kSide, .method = method, .antialias = antialias});
}

absl::StatusOr<std::unique_ptr<Op>> Color(ColorOp op, float factor) {
  return MakeColor({.op = op, .factor = {factor, factor}, .kernel_size = 23}, "color");
}

std::vector<Row> MakeRows() {
  std::vector<Row> rows;
  rows.push_back({"resize_bilinear", Resize(ResizeMethod::kBilinear, false), kCrop});
  rows.push_back({"resize_antialias", Resize(ResizeMethod::kBilinear, true), kCrop});
  rows.push_back({"resize_bicubic_antialias", Resize(ResizeMethod::kBicubic, true), kCrop});
  rows.push_back({"resize_bicubic", Resize(ResizeMethod::kBicubic, false), kCrop});
  rows.push_back({"resize_area", Resize(ResizeMethod::kArea, false), kCrop});
  rows.push_back({"flip", MakeFlip({.probability = 1}, "flip")});
  rows.push_back({"flip_vertical", MakeFlip({.probability = 1, .vertical = true}, "flip")});
  rows.push_back({"transpose", MakeTranspose({})});
  rows.push_back({"transpose_back", MakeTranspose({.perm = {1, 2, 0}}), {3, kSide, kSide}});
  rows.push_back({"transpose_sides", MakeTranspose({.perm = {1, 0, 2}})});
  rows.push_back({"pad", MakePad({.top = 4, .bottom = 4, .left = 4, .right = 4})});
  rows.push_back({"pad_channels", MakePadChannels({})});
  rows.push_back({"hue", Color(ColorOp::kHue, 0.1f)});
  rows.push_back({"saturation", Color(ColorOp::kSaturation, 1.3f)});
  rows.push_back({"grayscale", Color(ColorOp::kGrayscale, 0)});
  rows.push_back({"gaussian_blur", Color(ColorOp::kGaussianBlur, 1.5f)});
  rows.push_back({"sharpness", Color(ColorOp::kSharpness, 1.5f)});
  rows.push_back({"affine", MakeAffine({.degrees = {15, 15}}, "affine")});
  rows.push_back(
      {"affine_bilinear", MakeAffine({.degrees = {15, 15}, .bilinear = true}, "affine")});
  return rows;
}

// Of a call of `f`, over `seconds`.
double Microseconds(double seconds, const std::function<void()>& f) {
  f();
  const double start = ProcessSeconds();
  int64_t calls = 0;
  double spent = 0;
  do {
    for (int i = 0; i < 16; ++i) f();
    calls += 16;
    spent = ProcessSeconds() - start;
  } while (spent < seconds);
  return spent / static_cast<double>(calls) * 1e6;
}

int Measure(double seconds) {
  // Each value is near its left neighbour's, as in photographs.
  std::vector<uint8_t> pixels(static_cast<size_t>(kCrop.num_elements()));
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t noise = i * 2654435761u >> 13 & 15;
    pixels[i] = static_cast<uint8_t>(i / 9 % 240 + noise);
  }
  std::vector<Row> rows = MakeRows();
  for (const Row& row : rows) {
    const absl::Status status =
        row.op.ok() ? (*row.op)->Resolve(Schema({{"image", DType::kU8, row.in}})).status()
                    : row.op.status();
    if (status.ok()) continue;
    std::fprintf(stderr, "%s: %s\n", row.name, status.ToString().c_str());
    return 1;
  }
  std::vector<uint8_t> copy(static_cast<size_t>(kImage.num_elements()));
  std::printf("{\"copy\": %.2f",
              Microseconds(seconds, [&] { std::memcpy(copy.data(), pixels.data(), copy.size()); }));
  RunArena arena;
  for (const int64_t level : RowKernelLevels()) {
    UseRowKernelLevel(level);
    const char* separator = "";
    std::printf(", \"%s\": {", RowKernelLevelName(level));
    for (const Row& row : rows) {
      const double each = Microseconds(seconds, [&] {
        arena.Reset();
        Run run(arena, 1, 0, {{.record = 0}});
        run.Add("image", DType::kU8).Set(0, pixels.data(), row.in);
        (*row.op)->Apply(run);
      });
      std::printf("%s\"%s\": %.2f", separator, row.name, each);
      separator = ", ";
    }
    std::printf("}");
    UseRowKernelLevel(0);
  }
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_image_rows SECONDS\n");
    return 2;
  }
  return millrace::bench::Measure(std::atof(argv[1]));
}
