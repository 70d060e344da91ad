#include "trainer/backend/cuda/product.h"

#include <functional>

#include "gmock/gmock.h"
#include "tests/messages.h"

namespace millrace::trainer::cuda {
namespace {

// A 3x3 convolution of ResNet-50.
ProductSpec Convolution() {
  ProductSpec spec;
  spec.rows = 256;
  spec.height = spec.width = spec.out_height = spec.out_width = 56;
  spec.channels = spec.filters = 64;
  spec.window.kernel = {3, 3};
  spec.window.padding = {1, 1, 1, 1};
  spec.type = spec.result = DType::kBF16;
  return spec;
}

// The product that `change` makes of a right one.
ProductSpec With(const std::function<void(ProductSpec&)>& change) {
  ProductSpec spec = Convolution();
  change(spec);
  return spec;
}

TEST(ProductDescriptionTest, SaysPassTypesSizesAndWindow) {
  EXPECT_EQ(
      Describe(Convolution()),
      "forward convolution, bfloat16 [256, 56, 56, 64] by [64, 3, 3, 64], stride 1, padding 1");
}

TEST(ProductDescriptionTest, SaysAllThatIsNotUsual) {
  const ProductSpec spec = With([](ProductSpec& changed) {
    changed.pass = ProductPass::kWeightGradient;
    changed.type = DType::kF16;
    changed.result = DType::kF32;
    changed.window.kernel = {3, 1};
    changed.window.stride = {2, 1};
    changed.window.padding = {1, 0, 2, 0};
    changed.window.dilation = {2, 2};
    changed.window.groups = 64;
  });
  EXPECT_EQ(Describe(spec),
            "weight gradient of a convolution, float16 [256, 56, 56, 64] by [64, 3, 1, 1], stride "
            "2x1, padding 1/0/2/0, dilation 2, groups 64, to float32");
}

TEST(ProductDescriptionTest, SaysTheEpilogue) {
  EXPECT_EQ(Describe(With([](ProductSpec& spec) { spec.has_bias = spec.has_relu = true; })),
            "forward convolution, bfloat16 [256, 56, 56, 64] by [64, 3, 3, 64], stride 1, padding "
            "1, bias, ReLU");
  EXPECT_EQ(Describe(With([](ProductSpec& spec) {
              spec.pass = ProductPass::kDataGradient;
              spec.type = spec.result = DType::kF32;
              spec.tf32 = spec.has_addend = true;
            })),
            "data gradient of a convolution, float32 [256, 56, 56, 64] by [64, 3, 3, 64], stride "
            "1, padding 1, TF32, addend");
}

TEST(ProductSpecTest, RightOnesAreTaken) {
  EXPECT_TRUE(CheckProductSpec(Convolution()).ok());
  EXPECT_TRUE(CheckProductSpec(With([](ProductSpec& spec) {
                spec.window.stride = {2, 2};  // the last row and column have no window
                spec.window.padding = {1, 2, 1, 2};
                spec.out_height = spec.out_width = 29;
                spec.has_bias = true;
                spec.result = DType::kF32;
              })).ok());
}

TEST(ProductSpecTest, TheFirstBadFieldIsNamed) {
  const std::function<void(ProductSpec&)> changes[] = {
      [](ProductSpec& spec) { spec.rows = 0; },
      [](ProductSpec& spec) { spec.channels = int64_t{1} << 31; },
      [](ProductSpec& spec) { spec.window.kernel[1] = 0; },
      [](ProductSpec& spec) { spec.window.stride[0] = -1; },
      [](ProductSpec& spec) { spec.window.dilation[0] = 0; },
      [](ProductSpec& spec) { spec.window.padding[3] = -1; },
      [](ProductSpec& spec) { spec.window.groups = 0; },
      [](ProductSpec& spec) { spec.window.groups = 3; },
      [](ProductSpec& spec) { spec.out_height = 28; },
      [](ProductSpec& spec) { spec.window.kernel[1] = 59; },
      [](ProductSpec& spec) { spec.type = DType::kF64; },
      [](ProductSpec& spec) { spec.result = DType::kF16; },
      [](ProductSpec& spec) { spec.tf32 = true; },
      [](ProductSpec& spec) { spec.has_addend = true; },
      [](ProductSpec& spec) {
        spec.pass = ProductPass::kDataGradient;
        spec.has_bias = true;
      },
      [](ProductSpec& spec) {
        spec.pass = ProductPass::kWeightGradient;
        spec.has_relu = true;
      },
  };
  for (const auto& change : changes) {
    EXPECT_MESSAGE(CheckProductSpec(With(change)), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
