#include "tests/augment/policy/draw_probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/batch_mixing.h"
#include "augment/color_ops.h"
#include "augment/distort_ops.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "augment/policy/aug_mix.h"
#include "augment/policy/auto_augment.h"
#include "tests/augment/fixtures.h"
#include "tests/augment/image_testing.h"

namespace millrace::augment::testing {
namespace {

using MadeOp = absl::StatusOr<std::unique_ptr<Op>>;

Expected Uniform(double low, double high, double slack = 0) {
  return {low, high, (low + high) / 2, (high - low) * (high - low) / 12, slack};
}
Expected Coin(double p) { return {0, 1, p, p * (1 - p)}; }

Probe Through(std::string name, Expected expected, Value image,
              std::function<MadeOp(const std::string&)> make,
              std::function<double(const ConstTensorView&)> measure) {
  const auto draw = [=](const std::string& stage, uint64_t epoch, bool backwards) {
    std::vector<SampleId> ids;
    for (uint64_t record = 0; record < kProbedRecords; ++record) ids.push_back({epoch, record, 0});
    if (backwards) std::ranges::reverse(ids);
    RunArena arena;
    Run run(arena, /*seed=*/3, /*first_position=*/epoch * kProbedRecords, std::move(ids));
    Column& column = run.Add("image", image.dtype);
    for (int64_t row = 0; row < kProbedRecords; ++row)
      column.Set(row, image.bytes.data(), image.shape);
    MadeOp op = make(stage);
    EXPECT_TRUE(op.ok()) << op.status();
    ResolveAndApply(**op, Schema({{"image", image.dtype, image.shape}}), run);
    Series series;
    for (int64_t row = 0; row < kProbedRecords; ++row)
      series.push_back(measure(run.Get("image").at(row)));
    if (backwards) std::ranges::reverse(series);
    return series;
  };
  return {std::move(name), expected, draw};
}

Value Bytes(const Shape& shape, const std::vector<uint8_t>& values) {
  return MakeValue(DType::kU8, shape, values);
}
// Value x in column x.
Value Ramp(int64_t height, int64_t width) {
  std::vector<uint8_t> values;
  for (int64_t i = 0; i < height * width; ++i) values.push_back(static_cast<uint8_t>(i % width));
  return Bytes(Shape{height, width, 1}, values);
}
Value FloatRamp(int64_t height, int64_t width) {
  std::vector<float> values;
  for (int64_t i = 0; i < height * width; ++i) values.push_back(static_cast<float>(i % width));
  return MakeValue(DType::kF32, Shape{height, width, 1}, values);
}
Value Zeros(int64_t height, int64_t width) {
  return Bytes(Shape{height, width, 1}, std::vector<uint8_t>(static_cast<size_t>(height * width)));
}

double ByteOf(const ConstTensorView& image, size_t i) {
  return static_cast<double>(image.as<uint8_t>()[i]);
}
std::function<double(const ConstTensorView&)> ByteAt(size_t i) {
  return [i](const ConstTensorView& image) { return ByteOf(image, i); };
}
// Of values that the op has written 1 into: the first.
double FirstOne(const ConstTensorView& image) {
  const auto values = image.as<uint8_t>();
  return static_cast<double>((std::ranges::find(values, 1) - values.begin()) % image.shape[1]);
}

void AddGeometry(std::vector<Probe>* probes) {
  for (const bool vertical : {false, true}) {
    probes->push_back(Through(
        vertical ? "flip vertical" : "flip", Coin(0.3),
        Bytes(vertical ? Shape{2, 1, 1} : Shape{1, 2, 1}, {0, 1}),
        [vertical](const std::string& stage) {
          return MakeFlip({.probability = 0.3f, .vertical = vertical}, stage);
        },
        ByteAt(0)));
  }
  probes->push_back(Through(
      "random_crop", Integers(0, 17), Ramp(1, 20),
      [](const std::string& stage) { return MakeRandomCrop({.height = 1, .width = 3}, stage); },
      ByteAt(0)));
  // A region of 20 x 20 pixels, the only pixel left is its middle.
  probes->push_back(Through(
      "random_resized_crop place", Integers(0, 20), FloatRamp(40, 40),
      [](const std::string& stage) {
        return MakeRandomResizedCrop(
            {.height = 1, .width = 1, .area = {0.25f, 0.25f}, .aspect = {1, 1}}, stage);
      },
      [](const ConstTensorView& image) { return image.as<float>()[0] - 9.5; }));
  // Two pixels are half the region's width apart.
  probes->push_back(Through(
      "random_resized_crop area", Uniform(0.1, 0.9, 0.03), FloatRamp(100, 100),
      [](const std::string& stage) {
        return MakeRandomResizedCrop(
            {.height = 1, .width = 2, .area = {0.1f, 0.9f}, .aspect = {1, 1}}, stage);
      },
      [](const ConstTensorView& image) {
        const double width = 2 * double{image.as<float>()[1] - image.as<float>()[0]};
        return width * width / 10000;
      }));
}

Probe Color(std::string name, ColorOp op, std::array<float, 2> factor, Expected expected,
            Value image, std::function<double(const ConstTensorView&)> measure,
            int64_t kernel_size = 0) {
  return Through(
      std::move(name), expected, std::move(image),
      [=](const std::string& stage) {
        return MakeColor({.op = op, .factor = factor, .kernel_size = kernel_size}, stage);
      },
      std::move(measure));
}

// The factor that an affine change of one value shows.
std::function<double(const ConstTensorView&)> FactorAt(size_t i, double at_0, double slope) {
  return [=](const ConstTensorView& image) { return (ByteOf(image, i) + 0.5 - at_0) / slope; };
}

void AddColors(std::vector<Probe>* probes) {
  const std::array<float, 2> around_1 = {0.5f, 1.5f};
  const Expected even = Uniform(0.5, 1.5, 0.02);
  const Value flat = Bytes(Shape{1, 1, 1}, {150});
  probes->push_back(
      Color("brightness", ColorOp::kBrightness, around_1, even, flat, FactorAt(0, 0, 150)));
  probes->push_back(Color("contrast", ColorOp::kContrast, around_1, even,
                          Bytes(Shape{1, 2, 1}, {50, 150}), FactorAt(1, 100, 50)));
  probes->push_back(Color("saturation", ColorOp::kSaturation, around_1, even,
                          Bytes(Shape{1, 1, 3}, {200, 100, 100}), FactorAt(0, 129, 71)));
  probes->push_back(Color("sharpness", ColorOp::kSharpness, around_1, even,
                          Bytes(Shape{3, 3, 1}, {100, 100, 100, 100, 200, 100, 100, 100, 100}),
                          FactorAt(4, 138, 62)));
  // Of red, green grows by a turn to one side and blue by one to the other.
  probes->push_back(Color("hue", ColorOp::kHue, {-0.1f, 0.1f}, Uniform(-0.1, 0.1, 0.001),
                          Bytes(Shape{1, 1, 3}, {255, 0, 0}), [](const ConstTensorView& image) {
                            return (ByteOf(image, 1) - ByteOf(image, 2)) / 256 / 6;
                          }));
  // The middle keeps the square of w = 1 / (1 + 2 e), e = exp(-1 / (2 sigma^2)).
  probes->push_back(Color(
      "gaussian_blur", ColorOp::kGaussianBlur, {0.5f, 1}, Uniform(0.5, 1, 0.01),
      Bytes(Shape{5, 5, 1},
            {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
      [](const ConstTensorView& image) {
        const double w = std::sqrt(ByteOf(image, 12) / 255);
        return std::sqrt(-0.5 / std::log((1 / w - 1) / 2));
      },
      3));
  probes->push_back(Through(
      "color_jitter", even, flat,
      [](const std::string& stage) { return MakeColorJitter({.brightness = 0.5f}, stage); },
      FactorAt(0, 0, 150)));
  // Whether the image was changed at all.
  std::vector<uint8_t> pixels;  // as many as equalize needs to change any
  for (int k = 0; k < 20 * 20 * 3; ++k) pixels.push_back(static_cast<uint8_t>(10 + k * 37 % 170));
  for (const ColorOp op : {ColorOp::kGrayscale, ColorOp::kInvert, ColorOp::kEqualize,
                           ColorOp::kAutocontrast, ColorOp::kPosterize, ColorOp::kSolarize}) {
    probes->push_back(Through(
        std::string(NameOf(op)), Coin(0.25), Bytes(Shape{20, 20, 3}, pixels),
        [op](const std::string& stage) {
          return MakeColor({.op = op, .probability = 0.25f, .factor = {4, 4}}, stage);
        },
        [pixels](const ConstTensorView& image) {
          return std::ranges::equal(image.as<uint8_t>(), pixels) ? 0.0 : 1.0;
        }));
  }
}

Probe Turn(std::string name, Expected expected, AffineOptions options, size_t at,
           std::function<double(double)> from_column) {
  return Through(
      std::move(name), expected, Ramp(101, 101),
      [options](const std::string& stage) { return MakeAffine(options, stage); },
      [=](const ConstTensorView& image) { return from_column(ByteOf(image, at) - 50); });
}

void AddDistortions(std::vector<Probe>* probes) {
  constexpr double kDegrees = 180 / std::numbers::pi;
  const size_t middle = 50 * 101 + 50, above = 10 * 101 + 50, right = 50 * 101 + 90;
  probes->push_back(Turn("affine degrees", Uniform(-30, 30, 1), {.degrees = {-30, 30}}, above,
                         [=](double x) { return std::asin(x / 40) * kDegrees; }));
  probes->push_back(Turn("affine translate", Uniform(-20.2, 20.2, 0.5), {.translate = {0.2f, 0}},
                         middle, [](double x) { return x; }));
  probes->push_back(Turn("affine scale", Uniform(1, 2, 0.05), {.scale = {1, 2}}, right,
                         [](double x) { return 40 / x; }));
  probes->push_back(Turn("affine shear_x", Uniform(-30, 30, 1), {.shear_x = {-30, 30}}, above,
                         [=](double x) { return std::atan(x / 40) * kDegrees; }));
  probes->push_back(Through(
      "cutout", Integers(0, 49), Zeros(1, 50),
      [](const std::string& stage) { return MakeCutout({.size = 1, .value = 1}, stage); },
      FirstOne));
  probes->push_back(Through(
      "random_erasing", Integers(0, 20), Zeros(40, 40),
      [](const std::string& stage) {
        return MakeRandomErasing(
            {.probability = 1, .area = {0.25f, 0.25f}, .aspect = {1, 1}, .value = 1}, stage);
      },
      FirstOne));
  probes->push_back(Through(
      "random_erasing probability", Coin(0.4), Zeros(20, 20),
      [](const std::string& stage) {
        return MakeRandomErasing({.probability = 0.4f, .value = 1}, stage);
      },
      [](const ConstTensorView& image) {
        return std::ranges::find(image.as<uint8_t>(), 1) == image.as<uint8_t>().end() ? 0.0 : 1.0;
      }));
}

void AddPolicies(std::vector<Probe>* probes) {
  const auto first = [](AutoAugmentOptions options) {
    return [options](RandomStream& random) {
      return static_cast<double>(DrawTransforms(options, 32, 32, random).at(0).transform);
    };
  };
  probes->push_back(FromWords("rand_augment", Integers(0, 13), first({.num_ops = 1})));
  probes->push_back(FromWords("trivial_augment", Integers(0, 13),
                              first({.policy = AugmentPolicy::kTrivialAugment})));
  // Of each published pair 0, 1 or 2 are applied: the mean is the sum of the probabilities over the
  // pairs, and the variance that of their sums between pairs and of the coins within.
  probes->push_back(FromWords("imagenet", {0, 2, 31.0 / 25, 0.483200}, [](RandomStream& random) {
    const AutoAugmentOptions options{.policy = AugmentPolicy::kImageNet};
    return static_cast<double>(DrawTransforms(options, 32, 32, random).size());
  }));
  const auto mix = [](RandomStream& random) { return DrawMix({}, 32, 32, random); };
  probes->push_back(FromWords("aug_mix own weight", Uniform(0, 1), [mix](RandomStream& random) {
    return double{mix(random).own_weight};
  }));
  // (1 - m) w: the mean of the square is 1/3 times 1/6.
  probes->push_back(
      FromWords("aug_mix chain weight", {0, 1, 1.0 / 6, 1.0 / 36, 0.1},
                [mix](RandomStream& random) { return double{mix(random).chains[1].weight}; }));
  probes->push_back(FromWords("aug_mix depth", Integers(1, 3), [mix](RandomStream& random) {
    return static_cast<double>(mix(random).chains[2].transforms.size());
  }));
}

void AddBatchMixing(std::vector<Probe>* probes) {
  const auto mixture = [](BatchMixingOptions options) {
    return [options](RandomStream& random) {
      return DrawMixture(options, Shape{64, 48, 3}, random).value_or(Mixture{.kept = -1});
    };
  };
  probes->push_back(
      FromWords("mixup lambda", Uniform(0, 1),
                [draw = mixture({})](RandomStream& random) { return double{draw(random).kept}; }));
  probes->push_back(FromWords("mixup probability", Coin(0.7),
                              [draw = mixture({.probability = 0.7f})](RandomStream& random) {
                                return draw(random).kept < 0 ? 0.0 : 1.0;
                              }));
  probes->push_back(
      FromWords("mixup_or_cutmix switch", Coin(0.2),
                [draw = mixture({.kind = BatchMixingKind::kEither, .switch_probability = 0.2f})](
                    RandomStream& random) { return draw(random).cuts ? 1.0 : 0.0; }));
  // With lambda near 1/2 the box reaches 17 columns to both sides of a centre anywhere in 48.
  probes->push_back(FromWords("cutmix box", {-17, 31, 7, (48 * 48 - 1) / 12.0, 1},
                              [draw = mixture({.kind = BatchMixingKind::kCutmix,
                                               .cutmix_alpha = 1000})](RandomStream& random) {
                                const Mixture box = draw(random);
                                return box.left > 0 ? static_cast<double>(box.left)
                                                    : static_cast<double>(box.right - 2 * 17);
                              }));
}

}  // namespace

Expected Integers(double low, double high) {
  const double n = high - low + 1;
  return {low, high, (low + high) / 2, (n * n - 1) / 12};
}

Probe FromWords(std::string name, Expected expected, std::function<double(RandomStream&)> measure) {
  const auto draw = [measure](const std::string& stage, uint64_t epoch, bool /*backwards*/) {
    Series series;
    for (uint64_t record = 0; record < kProbedRecords; ++record) {
      RandomStream random({.seed = 3, .op = HashName(stage), .epoch = epoch, .record = record});
      series.push_back(measure(random));
    }
    return series;
  };
  return {std::move(name), expected, draw, /*through_op=*/false};
}

std::vector<Probe> Probes() {
  std::vector<Probe> probes;
  AddGeometry(&probes);
  AddColors(&probes);
  AddDistortions(&probes);
  AddPolicies(&probes);
  AddBatchMixing(&probes);
  return probes;
}

std::vector<Probe> PolicyProbes() {
  std::vector<uint8_t> pixels;
  for (int k = 0; k < 12 * 12 * 3; ++k) pixels.push_back(static_cast<uint8_t>(10 + k * 37 % 170));
  const Value image = Bytes(Shape{12, 12, 3}, pixels);
  const auto number = [](const ConstTensorView& view) {
    double sum = 0;
    size_t place = 0;
    for (const uint8_t value : view.as<uint8_t>()) {
      sum += static_cast<double>(++place) * static_cast<double>(value);
    }
    return sum;
  };
  std::vector<Probe> probes;
  for (const AugmentPolicy policy :
       {AugmentPolicy::kRandAugment, AugmentPolicy::kTrivialAugment, AugmentPolicy::kImageNet}) {
    const auto make = [policy](const std::string& stage) {
      return MakeAutoAugment({.policy = policy}, stage);
    };
    probes.push_back(
        Through(absl::StrCat("policy ", static_cast<int>(policy)), {}, image, make, number));
  }
  probes.push_back(Through(
      "aug_mix", {}, image, [](const std::string& stage) { return MakeAugMix({}, stage); },
      number));
  return probes;
}

}  // namespace millrace::augment::testing
