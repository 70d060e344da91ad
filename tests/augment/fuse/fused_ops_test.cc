#include "augment/fused_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <utility>

#include "augment/geometry_ops.h"
#include "augment/rows/kernels.h"
#include "base/half.h"
#include "tests/augment/fixtures.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"
#include "tests/sanitized.h"

// A fused op is the ops that it stands for, to the bit, at every level of its kernels.

namespace millrace::augment {
namespace {

using testing::EncodeJpeg;
using testing::MakeImage;
using testing::TestRun;

class Restored {
 public:
  ~Restored() { UseRowKernelLevel(0); }
};

std::unique_ptr<Op> Made(absl::StatusOr<std::unique_ptr<Op>> op) {
  EXPECT_TRUE(op.ok()) << op.status();
  return *std::move(op);
}

std::unique_ptr<Op> MakeStep(const PixelStep& step) {
  if (const auto* o = std::get_if<FlipOptions>(&step.options))
    return Made(MakeFlip(*o, step.stage));
  if (const auto* o = std::get_if<NormalizeOptions>(&step.options)) return Made(MakeNormalize(*o));
  if (const auto* o = std::get_if<CastOptions>(&step.options)) return Made(MakeCast(*o));
  if (const auto* o = std::get_if<PadChannelsOptions>(&step.options)) {
    return Made(MakePadChannels(*o));
  }
  return Made(MakeTranspose(std::get<TransposeOptions>(step.options)));
}

std::vector<std::unique_ptr<Op>> MakeSeparate(const FusedImageOptions& options) {
  std::vector<std::unique_ptr<Op>> ops;
  if (options.decode) ops.push_back(Made(MakeDecodeImage(*options.decode)));
  if (const auto* o = std::get_if<RandomResizedCropOptions>(&options.first)) {
    ops.push_back(Made(MakeRandomResizedCrop(*o, options.first_stage)));
  } else if (const auto* resize = std::get_if<ResizeOptions>(&options.first)) {
    ops.push_back(Made(MakeResize(*resize)));
  } else if (const auto* crop = std::get_if<RandomCropOptions>(&options.first)) {
    ops.push_back(Made(MakeRandomCrop(*crop, options.first_stage)));
  } else if (const auto* center = std::get_if<CenterCropOptions>(&options.first)) {
    ops.push_back(Made(MakeCenterCrop(*center)));
  }
  if (options.resize) ops.push_back(Made(MakeResize(*options.resize)));
  for (const PixelStep& step : options.steps) ops.push_back(MakeStep(step));
  return ops;
}

class Chains {
 public:
  explicit Chains(uint32_t seed) : random_(seed) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  // A resize by any method, to any dtype.
  ResizeOptions AnyResize(DType* dtype) {
    ResizeOptions resize{.height = 1 + Below(50), .width = 1 + Below(50)};
    if (Below(4) == 0) resize = {.shorter = 1 + Below(20)};
    std::tie(resize.method, resize.antialias) = AnyMethod();
    if (Below(2) == 0) *dtype = *(resize.dtype = Below(2) == 0 ? DType::kU8 : DType::kF32);
    return resize;
  }

  RandomResizedCropOptions AnyResizedCrop() {
    RandomResizedCropOptions crop{.height = 1 + Below(50), .width = 1 + Below(50)};
    if (Below(3) != 0) std::tie(crop.interpolation, crop.antialias) = AnyMethod();
    crop.max_attempts = static_cast<int>(1 + Below(20));
    return crop;
  }

  // Sets what comes first, with a resize behind a crop now and then.
  void First(int64_t height, int64_t width, DType* dtype, FusedImageOptions* options) {
    switch (Below(5)) {
      case 0:
        return;
      case 1:
        options->first = AnyResizedCrop();
        return;
      case 2:
        options->first = AnyResize(dtype);
        return;
      case 3:
        // Now and then larger than the image: zeros around it.
        options->first =
            CenterCropOptions{.height = 1 + Below(height + 9), .width = 1 + Below(width + 9)};
        break;
      default:
        // And here an error of the row.
        options->first =
            RandomCropOptions{.height = 1 + Below(height + 1), .width = 1 + Below(width + 1)};
    }
    if (Below(2) == 0) options->resize = AnyResize(dtype);
  }

  std::vector<PixelStep> Steps(DType dtype, int64_t channels) {
    std::vector<PixelStep> steps;
    for (int64_t left = Below(6); left > 0; --left) {
      std::optional<PixelOptions> next = Next(dtype, channels);
      if (!next || !CanFollow(steps, *next)) continue;
      if (const auto* cast = std::get_if<CastOptions>(&*next)) dtype = cast->dtype;
      if (std::holds_alternative<NormalizeOptions>(*next)) dtype = DType::kF32;
      if (const auto* pad = std::get_if<PadChannelsOptions>(&*next)) channels = pad->channels;
      steps.push_back({"step" + std::to_string(steps.size()), *std::move(next)});
    }
    return steps;
  }

 private:
  std::pair<ResizeMethod, bool> AnyMethod() {
    constexpr std::pair<ResizeMethod, bool> kMethods[] = {
        {ResizeMethod::kBilinear, false}, {ResizeMethod::kBilinear, true},
        {ResizeMethod::kBicubic, false},  {ResizeMethod::kBicubic, true},
        {ResizeMethod::kNearest, false},  {ResizeMethod::kArea, false}};
    return kMethods[Below(6)];
  }

  std::optional<PixelOptions> Next(DType dtype, int64_t channels) {
    const bool scalable = dtype == DType::kU8 || dtype == DType::kF32;
    switch (Below(6)) {
      case 0:
      case 1:
        return FlipOptions{.probability = 0.5f, .vertical = Below(3) == 0};
      case 2: {
        if (!scalable) return std::nullopt;
        NormalizeOptions normalize;
        for (int64_t c = 0; c < channels; ++c) {
          normalize.mean.push_back(static_cast<float>(Below(200)));
          normalize.stddev.push_back(static_cast<float>(1 + Below(70)) * 0.3f);
        }
        return normalize;
      }
      case 3: {
        constexpr DType kTo[] = {DType::kU8,  DType::kI32,  DType::kI64, DType::kF16,
                                 DType::kF32, DType::kBF16, DType::kF64};
        return CastOptions{
            .field = "image", .dtype = kTo[Below(7)], .scale = Below(2) == 0 ? 1.0f : 1.0f / 255};
      }
      case 4:
        return PadChannelsOptions{.channels = channels + Below(2), .value = 3.0f};
      default:
        return TransposeOptions{};
    }
  }

  std::mt19937 random_;
};

// Every row of "image": its bytes, or what the row failed with.
std::vector<std::string> Results(Run& run) {
  std::vector<std::string> results;
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (!run.ok(row)) {
      results.push_back(run.status(row).ToString());
      continue;
    }
    const ConstTensorView value = run.Get("image").at(row);
    results.push_back(value.shape.ToString() + std::string(Name(value.dtype)) +
                      std::string(static_cast<const char*>(value.data), value.size_bytes()));
  }
  return results;
}

std::string Described(const FusedImageOptions& options) {
  std::string text = "first " + std::to_string(options.first.index());
  if (options.resize) {
    text += ", resize " + std::to_string(static_cast<int>(options.resize->method));
  }
  for (const PixelStep& step : options.steps) text += ", " + std::to_string(step.options.index());
  return text;
}

// S-ROUND-1, S-ROUND-4.
TEST(FusedImage, RawImagesHaveTheBitsOfTheSeparateOpsAtEveryLevel) {
  const Restored restored;
  Chains chains(3);
  for (int round = 0; round < 600; ++round) {
    const int64_t height = 1 + chains.Below(40), width = 1 + chains.Below(60);
    const int64_t channels = chains.Below(3) == 0 ? 1 + chains.Below(4) : 3;
    const DType dtype = chains.Below(3) == 0 ? DType::kF32 : DType::kU8;
    const auto image = MakeImage(height, width, static_cast<int>(channels), 7 + round);
    std::vector<float> floats(image.pixels.begin(), image.pixels.end());
    for (float& value : floats) value = value * 1.7f - 100;
    const void* const data =
        dtype == DType::kU8 ? static_cast<const void*>(image.pixels.data()) : floats.data();
    const Schema schema({{"image", dtype, {Shape::kUnknown, Shape::kUnknown, channels}}});
    FusedImageOptions options{.first_stage = "first"};
    DType after = dtype;
    chains.First(height, width, &after, &options);
    options.steps = chains.Steps(after, channels);

    UseRowKernelLevel(RowKernelLevels().back());
    TestRun separate(4);
    separate.AddValue("image", dtype, {height, width, channels}, data);
    Schema expected = schema;
    for (const auto& op : MakeSeparate(options)) {
      expected = testing::ResolveAndApply(*op, expected, *separate);
    }
    const std::vector<std::string> wanted = Results(*separate);
    UseRowKernelLevel(0);
    for (const int64_t level : RowKernelLevels()) {
      UseRowKernelLevel(level);
      TestRun fused(4);
      fused.AddValue("image", dtype, {height, width, channels}, data);
      const auto op = Made(MakeFusedImage(options));
      EXPECT_EQ(testing::ResolveAndApply(*op, schema, *fused).ToString(), expected.ToString());
      ASSERT_TRUE(Results(*fused) == wanted)
          << RowKernelLevelName(level) << ", round " << round << ": " << Described(options);
      UseRowKernelLevel(0);
    }
  }
}

std::vector<std::string> SeparateOfJpegs(const FusedImageOptions& options,
                                         const std::vector<std::string>& jpegs) {
  TestRun run(static_cast<int64_t>(jpegs.size()));
  run.AddBytes("image/encoded", jpegs);
  Schema schema = testing::EncodedSchema();
  for (const auto& op : MakeSeparate(options)) schema = testing::ResolveAndApply(*op, schema, *run);
  return Results(*run);
}

std::vector<std::string> FusedOfJpegs(const FusedImageOptions& options,
                                      const std::vector<std::string>& jpegs) {
  TestRun run(static_cast<int64_t>(jpegs.size()));
  run.AddBytes("image/encoded", jpegs);
  const auto op = Made(MakeFusedImage(options));
  testing::ResolveAndApply(*op, testing::EncodedSchema(), *run);
  return Results(*run);
}

bool IsCrop(const FirstOptions& first) {
  return !std::holds_alternative<std::monostate>(first) &&
         !std::holds_alternative<ResizeOptions>(first);
}

// S-ROUND-1, S-ROUND-2, S-ROUND-4. The decoder's own levels are jpeg_region_test.cc's.
TEST(FusedImage, JpegsHaveTheBitsOfTheSeparateOpsAtEveryLevel) {
  const Restored restored;
  Chains chains(4);
  for (int round = 0; round < Rounds(120); ++round) {
    std::vector<std::string> jpegs;
    for (uint32_t i = 0; i < 6; ++i) {
      jpegs.push_back(EncodeJpeg(MakeImage(1 + chains.Below(150), 1 + chains.Below(150), 3, i)));
    }
    jpegs[3] = "no image";
    const int channels = round % 4 == 0 ? 1 : 3;
    FusedImageOptions options{.decode = DecodeImageOptions{.channels = channels},
                              .first_stage = "crop"};
    DType after = DType::kU8;
    if (round % 3 == 0) options.first = chains.AnyResizedCrop();
    while (!IsCrop(options.first)) chains.First(150, 150, &after, &options);
    options.steps = chains.Steps(after, channels);
    std::vector<std::string> wanted;
    for (const int64_t level : RowKernelLevels()) {
      UseRowKernelLevel(level);
      ASSERT_EQ(RowKernelLevelInUse(), level);
      const std::vector<std::string> separate = SeparateOfJpegs(options, jpegs);
      if (wanted.empty()) wanted = separate;
      ASSERT_TRUE(separate == wanted)
          << RowKernelLevelName(level) << ", round " << round << ": " << Described(options);
      ASSERT_TRUE(FusedOfJpegs(options, jpegs) == wanted)
          << RowKernelLevelName(level) << ", round " << round << ": " << Described(options);
      UseRowKernelLevel(0);
    }
  }
}

TEST(FusedImage, RowsOfCropsThatEndInAnyOrderAreDense) {
  std::vector<std::string> jpegs;
  for (uint32_t i = 0; i < 7; ++i) {  // the first takes longest
    jpegs.push_back(EncodeJpeg(MakeImage(400 >> i | 8, 400 >> i | 8, 3, i)));
  }
  TestRun run(7);
  run.AddBytes("image/encoded", jpegs);
  const auto op = Made(MakeFusedImage({.decode = DecodeImageOptions(),
                                       .first_stage = "crop",
                                       .first = RandomResizedCropOptions{.height = 5, .width = 9},
                                       .steps = {{"flip", FlipOptions()}}}));
  testing::ResolveAndApply(*op, testing::EncodedSchema(), *run);
  const Column& images = run->Get("image");
  EXPECT_TRUE(images.is_dense());
  EXPECT_EQ(images.stride_bytes(), 5 * 9 * 3);
  EXPECT_GE(op->preferred_rows(), 8);  // several for each of the decoder's tracks
}

TEST(FusedImage, ResolvedAgainItIsTheSame) {
  const auto op = Made(MakeFusedImage({.steps = {{"n", NormalizeOptions{"image", {1}, {2}}},
                                                 {"c", CastOptions{.field = "image"}},
                                                 {"t", TransposeOptions()}}}));
  const auto image = MakeImage(3, 5, 1, 7);
  const Schema schema({{"image", DType::kU8, {Shape::kUnknown, Shape::kUnknown, 1}}});
  std::vector<std::string> results[2];
  for (std::vector<std::string>& result : results) {
    TestRun run(2);
    run.AddValue("image", DType::kU8, {3, 5, 1}, image.pixels.data());
    testing::ResolveAndApply(*op, schema, *run);
    result = Results(*run);
  }
  EXPECT_EQ(results[0], results[1]);
}

// Rows that failed before have no image, and images may have no pixels.
TEST(FusedImage, RowsWithoutAnImageAreLeftAlone) {
  const auto op = Made(MakeFusedImage(
      {.steps = {{"f", FlipOptions{.probability = 1}}, {"c", CastOptions{.field = "image"}}}}));
  TestRun run(3);
  const uint8_t pixels[] = {1, 2};
  Column& column = run->Add("image", DType::kU8);
  column.Set(1, pixels, {0, 7, 1});
  column.Set(2, pixels, {1, 2, 1});
  run->Fail(0, absl::InternalError("before"));
  const Schema schema({{"image", DType::kU8, {Shape::kUnknown, Shape::kUnknown, 1}}});
  testing::ResolveAndApply(*op, schema, *run);
  EXPECT_MESSAGE(run->status(0));
  EXPECT_EQ(run->Get("image").at(0).data, nullptr);
  EXPECT_EQ(run->Get("image").at(1).shape, Shape({0, 7, 1}));
  EXPECT_EQ(run->Get("image").at(2).as<float>()[0], 2);
}

// S-LIBRARY-1: the product of two rounded factors there, a difference of two products here.
FusedImageOptions FlipNormalizeTranspose() {
  FusedImageOptions options;
  options.steps = {{"flip", FlipOptions{.probability = 1}},
                   {"normalize", NormalizeOptions{.mean = {123.675f, 116.28f, 103.53f},
                                                  .stddev = {58.395f, 57.12f, 57.375f}}},
                   {"planes", TransposeOptions{}}};
  return options;
}

TEST(FusedImage, AFlipNormalizedAndTransposedIsDalisCropMirrorNormalize) {
  const testing::Value crop =
      testing::ApplyTo(MakeCenterCrop({.height = 15, .width = 9}), testing::Fixture("input/rgb"));
  FusedImageOptions options = FlipNormalizeTranspose();
  const testing::Value& expected = testing::Fixture("numpy/crop_mirror_normalize");
  EXPECT_LT(testing::LargestDifference(testing::ApplyTo(MakeFusedImage(options), crop), expected),
            1e-6);
  options.steps.push_back({"cast", CastOptions{.field = "image", .dtype = DType::kF16}});
  const testing::Value halves = testing::ApplyTo(MakeFusedImage(options), crop);
  for (size_t i = 0; i < expected.as<float>().size(); ++i) {
    const float value = expected.as<float>()[i];
    ASSERT_NEAR(ToFloat(halves.as<Half>()[i]), value, std::abs(value) / 2048 + 1e-6) << i;
  }
}

// S-LIBRARY-1: of half a pixel center_crop takes the even side, DALI the right one. That is the
// same for a margin of 3 (1.5) and not of 5 (2.5), where DALI's crop begins a row and a column
// further on.
TEST(FusedImage, TheMiddleIsDalisButForMarginsOfOneAboveFours) {
  const testing::Value& image = testing::Fixture("input/rgb");
  const auto made = [](const testing::Value& crop) {
    return testing::ApplyTo(MakeFusedImage(FlipNormalizeTranspose()), crop);
  };
  const auto centered = [&](int64_t margin) {
    return testing::ApplyTo(
        MakeCenterCrop({.height = image.shape[0] - margin, .width = image.shape[1] - margin}),
        image);
  };
  EXPECT_LT(testing::LargestDifference(made(centered(3)),
                                       testing::Fixture("numpy/crop_mirror_normalize_3")),
            1e-6);
  const testing::Value& expected = testing::Fixture("numpy/crop_mirror_normalize_5");
  EXPECT_GT(testing::LargestDifference(made(centered(5)), expected), 0.1);
  const testing::Value further =
      testing::CropOf(image, 3, 3, image.shape[0] - 5, image.shape[1] - 5);
  EXPECT_LT(testing::LargestDifference(made(further), expected), 1e-6);
}

TEST(FusedImage, PlanesAreFollowedByCastsOnly) {
  const std::vector<PixelStep> planes = {{"t", TransposeOptions()}};
  EXPECT_TRUE(CanFollow(planes, CastOptions()));
  EXPECT_FALSE(CanFollow(planes, FlipOptions()));
  EXPECT_FALSE(CanFollow(planes, TransposeOptions()));
  EXPECT_FALSE(CanFollow({}, TransposeOptions{.perm = {1, 0, 2}}));
}

TEST(FusedImage, AResizeFollowsACropWhoseExtentsAllowIt) {
  const ResizeOptions to{.height = 4, .width = 4};
  EXPECT_TRUE(CanBeResized(RandomCropOptions{.height = 3, .width = 3}, to));
  EXPECT_TRUE(CanBeResized(CenterCropOptions{.height = 3, .width = 3}, to));
  EXPECT_FALSE(CanBeResized(RandomResizedCropOptions(), to));
  EXPECT_FALSE(CanBeResized(to, to));
  EXPECT_FALSE(CanBeResized({}, to));
  // The longer side would exceed 65536.
  EXPECT_FALSE(CanBeResized(CenterCropOptions{.height = 1, .width = 1000}, {.shorter = 100}));
  const auto op = MakeFusedImage({.first = RandomResizedCropOptions(), .resize = to});
  EXPECT_MESSAGE(op.status());
}

TEST(FusedImage, OptionsThatAreWrongAreTheOpsOwnErrors) {
  const auto flip = MakeFusedImage({.steps = {{"f", FlipOptions{.probability = 2}}}});
  EXPECT_MESSAGE(flip.status());
  EXPECT_FALSE(MakeFusedImage({.decode = DecodeImageOptions()}).ok());
  EXPECT_FALSE(MakeFusedImage({.decode = DecodeImageOptions(), .first = ResizeOptions()}).ok());
  const auto crop = MakeFusedImage({.first = RandomResizedCropOptions{.max_attempts = 0}});
  EXPECT_MESSAGE(crop.status());
}

}  // namespace
}  // namespace millrace::augment
