// Folded images, weights and their gradients against loops; and convolutions on folded images
// against those on the images.

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/trainer/backend/cuda/host_device.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/kernel_tensor.h"
#include "trainer/backend/cuda/folding.h"

namespace millrace::trainer::cuda {
namespace {

// --- Images ---

struct ImageCase {
  DType from = DType::kU8;
  DType to = DType::kBF16;
  int64_t rows = 1;
  int64_t height = 2;
  int64_t width = 2;
  int64_t channels = 3;
  bool has_numbers = false;  // true with scale and shift

  std::string Text() const {
    return absl::StrCat(ToAbsl(Name(from)), " to ", ToAbsl(Name(to)), " ", rows, " x ", height,
                        " x ", width, " x ", channels, has_numbers ? ", scaled" : "");
  }
};

// The values of the images, folded; `Value(i, c)` is the one at `i`, of channel c.
template <typename F>
std::vector<double> FoldedValues(const ImageCase& test, const F& value) {
  std::vector<double> folded;
  for (int64_t line = 0; line < test.rows * test.height / 2; ++line) {
    for (int64_t column = 0; column < test.width / 2; ++column) {
      for (int64_t k = 0; k < kFoldedChannels; ++k) {
        const int64_t c = k % test.channels;
        const int64_t pixel = k / test.channels;
        const int64_t y = 2 * line + pixel / 2;
        const int64_t x = 2 * column + pixel % 2;
        folded.push_back(pixel < 4 ? value((y * test.width + x) * test.channels + c, c) : 0);
      }
    }
  }
  return folded;
}

void Check(const ImageCase& test) {
  const auto count = static_cast<size_t>(test.rows * test.height * test.width * test.channels);
  const auto channels = static_cast<size_t>(test.channels);
  const KernelTensor from(test.from, DrawnValues(count, 1, 0, 200));
  KernelTensor scale(DType::kF32, DrawnValues(channels, 2));
  KernelTensor shift(DType::kF32, DrawnValues(channels, 3));
  const std::vector<double> expected = FoldedValues(test, [&](int64_t i, int64_t c) {
    const double value = from.at(static_cast<size_t>(i));
    const auto channel = static_cast<size_t>(c);
    return test.has_numbers ? value * scale.at(channel) + shift.at(channel) : value;
  });
  KernelTensor to(test.to, std::vector<double>(expected.size(), 77));
  FoldArgs args = {.from = from.data(),
                   .from_type = test.from,
                   .to = to.data(),
                   .to_type = test.to,
                   .rows = test.rows,
                   .height = test.height,
                   .width = test.width,
                   .channels = test.channels};
  if (test.has_numbers) {
    args.scale = scale.as<float>();
    args.shift = shift.as<float>();
  }
  ASSERT_TRUE(HostKernels().fold(nullptr, args).ok()) << test.Text();
  // Two roundings in float32 of numbers of at most 500.
  ExpectNear(to, expected, 500 * 2 * 0x1p-24, test.Text());
}

TEST(FoldKernelTest, ImagesOfEveryTypeAreThoseOfALoop) {
  for (const DType from : {DType::kU8, DType::kF32}) {
    for (const DType to : {DType::kBF16, DType::kF16}) {
      for (const int64_t channels : {1, 2, 3, 4}) {
        for (const bool has_numbers : {false, true}) {
          Check({from, to, 1, 2, 2, channels, has_numbers});
          Check({from, to, 3, 6, 10, channels, has_numbers});
          Check({from, to, 2, 14, 4, channels, has_numbers});
        }
      }
    }
  }
}

// More folded pixels than a launch has threads.
TEST(FoldKernelTest, AThreadTakesSeveralPixels) {
  Check({DType::kU8, DType::kBF16, 1, 2050, 2052, 1, true});
}

TEST(FoldKernelTest, NothingAndWrongSettingsAreAnswered) {
  EXPECT_TRUE(HostKernels().fold(nullptr, {.rows = 0}).ok());
  EXPECT_EQ(HostKernels().fold(nullptr, {.to_type = DType::kF32}),
            absl::InvalidArgumentError("no kernel folds to float32"));
  EXPECT_EQ(HostKernels().fold(nullptr, {.from_type = DType::kI32}),
            absl::InvalidArgumentError("no kernel folds int32"));
  EXPECT_EQ(HostKernels().fold(nullptr, {.channels = 5}),
            absl::InvalidArgumentError("no kernel folds images of 5 channels"));
  FoldWeightsArgs weights;
  weights.to_type = DType::kF64;
  EXPECT_EQ(HostKernels().fold_weights(nullptr, weights),
            absl::InvalidArgumentError("no kernel computes in float64"));
}

// --- Convolutions ---

// Small whole numbers, which every type has, and whose sums float32 has.
KernelTensor Whole(DType type, int64_t count, unsigned seed) {
  std::vector<double> values = DrawnValues(static_cast<size_t>(count), seed, -3, 3);
  for (double& value : values) value = static_cast<double>(static_cast<int>(value));
  return {type, values};
}

// A convolution by `window`, of some images.
struct Convolution {
  Window window;
  int64_t channels = 3;
  DType type = DType::kBF16;

  std::string Text() const { return Describe(Spec(ProductPass::kForward)); }
  ProductSpec Spec(ProductPass pass) const {
    ProductSpec spec;
    spec.pass = pass;
    spec.rows = 2;
    spec.height = 8;
    spec.width = 10;
    spec.channels = channels;
    spec.filters = 3;
    spec.window = window;
    spec.out_height = Places(spec.height, 0);
    spec.out_width = Places(spec.width, 1);
    spec.type = type;
    return spec;
  }
  int64_t Places(int64_t extent, int axis) const {
    const int64_t padded = extent + window.padding[2 * axis] + window.padding[2 * axis + 1];
    return (padded - window.kernel[axis]) / 2 + 1;
  }
};

int64_t ImageValues(const ProductSpec& spec) {
  return spec.rows * spec.height * spec.width * spec.channels;
}
int64_t WeightValues(const ProductSpec& spec) {
  return spec.filters * spec.window.kernel[0] * spec.window.kernel[1] * spec.channels;
}
int64_t OutputValues(const ProductSpec& spec) {
  return spec.rows * spec.out_height * spec.out_width * spec.filters;
}

void Run(const ProductSpec& spec, const ProductTensors& tensors) {
  ASSERT_EQ(CheckProductSpec(spec), absl::OkStatus());
  const auto product = MakeHostProduct(spec);
  ASSERT_TRUE(product.ok()) << product.status();
  std::vector<std::byte> workspace((*product)->workspace_bytes());
  HostStream stream;
  ASSERT_TRUE((*product)->Run(&stream, tensors, workspace.data()).ok());
}

// Memory that a kernel has to fill.
KernelTensor Unset(DType type, int64_t count) {
  return {type, std::vector<double>(static_cast<size_t>(count), 77)};
}

void CheckForward(const Convolution& test) {
  const ProductSpec spec = test.Spec(ProductPass::kForward);
  const ProductSpec folded = Folded(spec);
  KernelTensor x = Whole(test.type, ImageValues(spec), 1);
  KernelTensor w = Whole(test.type, WeightValues(spec), 2);
  KernelTensor y = Unset(DType::kF32, OutputValues(spec));
  const KernelTensor image(DType::kF32, x.values());
  KernelTensor folded_x = Unset(test.type, ImageValues(folded));
  KernelTensor folded_w = Unset(test.type, WeightValues(folded));
  KernelTensor folded_y = y;
  ASSERT_TRUE(HostKernels()
                  .fold(nullptr, {.from = image.data(),
                                  .to = folded_x.data(),
                                  .to_type = test.type,
                                  .rows = spec.rows,
                                  .height = spec.height,
                                  .width = spec.width,
                                  .channels = spec.channels})
                  .ok());
  ASSERT_TRUE(HostKernels()
                  .fold_weights(nullptr, {.from = w.data(),
                                          .from_type = test.type,
                                          .to = folded_w.data(),
                                          .to_type = test.type,
                                          .filters = spec.filters,
                                          .channels = spec.channels,
                                          .window = spec.window})
                  .ok());
  Run(spec, {.x = x.data(), .w = w.data(), .y = y.data()});
  Run(folded, {.x = folded_x.data(), .w = folded_w.data(), .y = folded_y.data()});
  EXPECT_EQ(folded_y.values(), y.values());
}

void CheckWeightGradient(const Convolution& test) {
  const ProductSpec spec = test.Spec(ProductPass::kWeightGradient);
  const ProductSpec folded = Folded(spec);
  KernelTensor x = Whole(test.type, ImageValues(spec), 1);
  KernelTensor y = Whole(test.type, OutputValues(spec), 3);
  KernelTensor w = Unset(DType::kF32, WeightValues(spec));
  const KernelTensor image(DType::kF32, x.values());
  KernelTensor folded_x = Unset(test.type, ImageValues(folded));
  KernelTensor folded_w = Unset(DType::kF32, WeightValues(folded));
  KernelTensor unfolded = w;
  const float factor = 0.5;
  ASSERT_TRUE(HostKernels()
                  .fold(nullptr, {.from = image.data(),
                                  .to = folded_x.data(),
                                  .to_type = test.type,
                                  .rows = spec.rows,
                                  .height = spec.height,
                                  .width = spec.width,
                                  .channels = spec.channels})
                  .ok());
  Run(spec, {.x = x.data(), .w = w.data(), .y = y.data()});
  Run(folded, {.x = folded_x.data(), .w = folded_w.data(), .y = y.data()});
  ASSERT_TRUE(HostKernels()
                  .unfold_weights(nullptr, {.from = folded_w.data(),
                                            .to = unfolded.data(),
                                            .filters = spec.filters,
                                            .channels = spec.channels,
                                            .window = spec.window,
                                            .factor = &factor})
                  .ok());
  std::vector<double> expected = w.values();
  for (double& value : expected) value *= 0.5;
  EXPECT_EQ(unfolded.values(), expected);
}

void Check(const Convolution& test) {
  SCOPED_TRACE(test.Text());
  CheckForward(test);
  CheckWeightGradient(test);
}

TEST(FoldKernelTest, AFoldedConvolutionIsTheConvolution) {
  for (int64_t kernel = 1; kernel <= 7; ++kernel) {
    for (int64_t before = 0; before <= 3; ++before) {
      for (int64_t after = 0; after <= 3; ++after) {
        // Along the other axis the window is another.
        const Window window = {.kernel = {kernel, 8 - kernel},
                               .stride = {2, 2},
                               .padding = {before, after, 3 - after, before}};
        const int64_t channels = 1 + (kernel + before + after) % 4;
        Check({window, channels, DType::kBF16});
        Check({window, 5 - channels, DType::kF16});
      }
    }
  }
}

// By its definition, where a loop is not the kernel's inverse.
TEST(FoldKernelTest, FoldedWeightsAreThoseOfTheirTaps) {
  const Window window = {.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 0, 0, 0}};
  KernelTensor weights(DType::kF32, std::vector<double>{1, 2, 3, 4, 5, 6});
  KernelTensor folded = Unset(DType::kBF16, 2 * kFoldedChannels);
  ASSERT_TRUE(HostKernels()
                  .fold_weights(nullptr, {.from = weights.data(),
                                          .to = folded.data(),
                                          .to_type = DType::kBF16,
                                          .filters = 1,
                                          .channels = 1,
                                          .window = window})
                  .ok());
  std::vector<double> expected(2 * kFoldedChannels, 0);
  expected[2] = 1;  // line 0 of the window is the lower one of the first folded line
  expected[3] = 2;
  for (size_t k = 0; k < 4; ++k) expected[kFoldedChannels + k] = static_cast<double>(3 + k);
  EXPECT_EQ(folded.values(), expected);
}

}  // namespace
}  // namespace millrace::trainer::cuda
