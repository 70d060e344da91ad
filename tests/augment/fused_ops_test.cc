#include "augment/fused_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "augment/row_kernels_internal.h"
#include "image_testing.h"

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
  }
  for (const PixelStep& step : options.steps) ops.push_back(MakeStep(step));
  return ops;
}

class Chains {
 public:
  explicit Chains(uint32_t seed) : random_(seed) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  FirstOptions First(int64_t height, int64_t width) {
    switch (Below(5)) {
      case 0:
        return {};
      case 1:
        return RandomResizedCropOptions{.height = 1 + Below(50), .width = 1 + Below(50)};
      case 2:
        return ResizeOptions{.height = 1 + Below(50), .width = 1 + Below(50)};
      case 3:
        return ResizeOptions{.shorter = 1 + Below(20)};
      default:
        // Now and then larger than the image, which is an error of the row.
        return RandomCropOptions{.height = 1 + Below(height + 1), .width = 1 + Below(width + 1)};
    }
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
  for (const PixelStep& step : options.steps) text += ", " + std::to_string(step.options.index());
  return text;
}

// S-ROUND-1, S-ROUND-4.
TEST(FusedImage, RawImagesHaveTheBitsOfTheSeparateOpsAtEveryLevel) {
  const Restored restored;
  Chains chains(3);
  for (int round = 0; round < 300; ++round) {
    const int64_t height = 1 + chains.Below(40), width = 1 + chains.Below(60);
    const int64_t channels = chains.Below(3) == 0 ? 1 + chains.Below(4) : 3;
    const DType dtype = chains.Below(3) == 0 ? DType::kF32 : DType::kU8;
    const auto image = MakeImage(height, width, static_cast<int>(channels), 7 + round);
    std::vector<float> floats(image.pixels.begin(), image.pixels.end());
    for (float& value : floats) value = value * 1.7f - 100;
    const void* const data =
        dtype == DType::kU8 ? static_cast<const void*>(image.pixels.data()) : floats.data();
    const Schema schema({{"image", dtype, {Shape::kUnknown, Shape::kUnknown, channels}}});
    const FusedImageOptions options{"image", std::nullopt, "first", chains.First(height, width),
                                    chains.Steps(dtype, channels)};

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

// S-ROUND-1, S-ROUND-2, S-ROUND-4. The decoder's own levels are jpeg_region_test.cc's.
TEST(FusedImage, JpegsHaveTheBitsOfTheSeparateOpsAtEveryLevel) {
  const Restored restored;
  Chains chains(4);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> jpegs;
    for (uint32_t i = 0; i < 6; ++i) {
      jpegs.push_back(EncodeJpeg(MakeImage(1 + chains.Below(150), 1 + chains.Below(150), 3, i)));
    }
    jpegs[3] = "no image";
    const int channels = round % 4 == 0 ? 1 : 3;
    const RandomResizedCropOptions crop{.height = 1 + chains.Below(60),
                                        .width = 1 + chains.Below(60)};
    const FusedImageOptions options{"image", DecodeImageOptions{.channels = channels}, "crop", crop,
                                    chains.Steps(DType::kU8, channels)};
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
  EXPECT_GE(op->preferred_rows(), 8);  // several for each of the decoder's lanes
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
  EXPECT_EQ(run->status(0).message(), "before");
  EXPECT_EQ(run->Get("image").at(0).data, nullptr);
  EXPECT_EQ(run->Get("image").at(1).shape, Shape({0, 7, 1}));
  EXPECT_EQ(run->Get("image").at(2).as<float>()[0], 2);
}

TEST(FusedImage, PlanesAreFollowedByCastsOnly) {
  const std::vector<PixelStep> planes = {{"t", TransposeOptions()}};
  EXPECT_TRUE(CanFollow(planes, CastOptions()));
  EXPECT_FALSE(CanFollow(planes, FlipOptions()));
  EXPECT_FALSE(CanFollow(planes, TransposeOptions()));
  EXPECT_FALSE(CanFollow({}, TransposeOptions{.perm = {1, 0, 2}}));
  EXPECT_FALSE(CanBeFirst({.antialias = true}));
  EXPECT_FALSE(CanBeFirst({.method = ResizeMethod::kArea}));
  EXPECT_FALSE(CanBeFirst({.dtype = DType::kF32}));
}

TEST(FusedImage, OptionsThatAreWrongAreTheOpsOwnErrors) {
  const auto flip = MakeFusedImage({.steps = {{"f", FlipOptions{.probability = 2}}}});
  EXPECT_EQ(flip.status().message(), "flip: probability is 2; expected 0 to 1");
  EXPECT_FALSE(MakeFusedImage({.decode = DecodeImageOptions()}).ok());
}

}  // namespace
}  // namespace millrace::augment
