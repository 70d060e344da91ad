// Products of cuDNN on a device against loops over float64. All values are small integers, so that
// every sum is exact in each of the types, in any order.

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cuda_calls.h"
#include "base/half.h"
#include "base/philox.h"
#include "gmock/gmock.h"
#include "trainer/backend/cuda/cudnn/products.h"

namespace millrace::trainer::cuda {
namespace {

using Values = std::vector<double>;

// Memory that the host and the device use.
class Shared {
 public:
  explicit Shared(size_t bytes) {
    const cudaError_t error = cudaMallocManaged(&memory_, bytes + 1, cudaMemAttachGlobal);
    EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { cudaFree(memory_); }
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

void Write(const Values& values, DType type, void* to) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    if (type == DType::kF32) static_cast<float*>(to)[i] = value;
    if (type == DType::kF16) static_cast<Half*>(to)[i] = ToHalf(value);
    if (type == DType::kBF16) static_cast<BFloat*>(to)[i] = ToBFloat(value);
  }
}

Values Read(const void* from, DType type, size_t count) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) {
    if (type == DType::kF32) values[i] = static_cast<const float*>(from)[i];
    if (type == DType::kF16) values[i] = ToFloat(static_cast<const Half*>(from)[i]);
    if (type == DType::kBF16) values[i] = ToFloat(static_cast<const BFloat*>(from)[i]);
  }
  return values;
}

// -1, 0 or 1, most of them 0.
Values RandomValues(size_t count, uint64_t seed) {
  RandomKey key;
  key.seed = seed;
  RandomStream random(key);
  Values values(count);
  for (double& value : values) {
    const uint64_t drawn = random.Below(8);
    value = drawn == 0 ? -1 : drawn == 1 ? 1 : 0;
  }
  return values;
}

// The tensors of a product, on the host.
struct Tensors {
  Values x;
  Values w;
  Values y;
  Values bias;
  Values addend;
};

size_t SizeOfX(const ProductSpec& spec) {
  return spec.rows * spec.height * spec.width * spec.channels;
}
size_t SizeOfW(const ProductSpec& spec) {
  return spec.filters * spec.window.kernel[0] * spec.window.kernel[1] * spec.channels /
         spec.window.groups;
}
size_t SizeOfY(const ProductSpec& spec) {
  return spec.rows * spec.out_height * spec.out_width * spec.filters;
}

Tensors RandomTensors(const ProductSpec& spec) {
  return {RandomValues(SizeOfX(spec), 1), RandomValues(SizeOfW(spec), 2),
          RandomValues(SizeOfY(spec), 3), RandomValues(spec.filters, 4),
          RandomValues(SizeOfX(spec), 5)};
}

// Calls `add` with the indexes of each product of a filter's channel at a place of the window.
void ForEachProduct(const ProductSpec& spec,
                    const std::function<void(size_t x, size_t w, size_t y)>& add) {
  const Window& window = spec.window;
  const int64_t channels = spec.channels / window.groups;
  const int64_t filters = spec.filters / window.groups;
  size_t y = 0;
  for (int64_t n = 0; n < spec.rows; ++n)
    for (int64_t p = 0; p < spec.out_height; ++p)
      for (int64_t q = 0; q < spec.out_width; ++q)
        for (int64_t k = 0; k < spec.filters; ++k, ++y)
          for (int64_t r = 0; r < window.kernel[0]; ++r)
            for (int64_t s = 0; s < window.kernel[1]; ++s) {
              const int64_t h = p * window.stride[0] - window.padding[0] + r * window.dilation[0];
              const int64_t v = q * window.stride[1] - window.padding[2] + s * window.dilation[1];
              if (h < 0 || h >= spec.height || v < 0 || v >= spec.width) continue;
              for (int64_t c = 0; c < channels; ++c) {
                const int64_t channel = k / filters * channels + c;
                add(((n * spec.height + h) * spec.width + v) * spec.channels + channel,
                    ((k * window.kernel[0] + r) * window.kernel[1] + s) * channels + c, y);
              }
            }
}

Values Expected(const ProductSpec& spec, const Tensors& of) {
  if (spec.pass == ProductPass::kForward) {
    Values y(SizeOfY(spec));
    for (size_t i = 0; i < y.size() && spec.has_bias; ++i) y[i] = of.bias[i % spec.filters];
    ForEachProduct(spec, [&](size_t x, size_t w, size_t i) { y[i] += of.x[x] * of.w[w]; });
    for (double& value : y) value = spec.has_relu && value < 0 ? 0 : value;
    return y;
  }
  if (spec.pass == ProductPass::kDataGradient) {
    Values x = spec.has_addend ? of.addend : Values(SizeOfX(spec));
    ForEachProduct(spec, [&](size_t i, size_t w, size_t y) { x[i] += of.y[y] * of.w[w]; });
    return x;
  }
  Values w(SizeOfW(spec));
  ForEachProduct(spec, [&](size_t x, size_t i, size_t y) { w[i] += of.y[y] * of.x[x]; });
  return w;
}

// What `product` makes, twice; the second time, an addend is where the result will be.
std::vector<Values> Computed(const ProductSpec& spec, const Product& product, const Tensors& of,
                             cudaStream_t stream) {
  const Shared x(4 * of.x.size()), w(4 * of.w.size()), y(4 * of.y.size());
  const Shared bias(4 * of.bias.size()), addend(4 * of.addend.size());
  const Shared workspace(product.workspace_bytes());
  Write(of.bias, DType::kF32, bias.get());
  Write(of.addend, spec.type, addend.get());
  ProductTensors tensors = {x.get(), w.get(), y.get(), static_cast<float*>(bias.get()),
                            addend.get()};
  const bool makes_y = spec.pass == ProductPass::kForward;
  const bool makes_x = spec.pass == ProductPass::kDataGradient;
  const void* const made = makes_y ? y.get() : makes_x ? x.get() : w.get();
  const size_t count = makes_y ? of.y.size() : makes_x ? of.x.size() : of.w.size();
  std::vector<Values> results;
  for (int run = 0; run < 2; ++run) {
    Write(of.x, spec.type, x.get());  // what is made is garbage before
    Write(of.w, spec.type, w.get());
    Write(of.y, spec.type, y.get());
    if (spec.has_addend && run == 1) {
      Write(of.addend, spec.type, x.get());
      tensors.addend = x.get();
    }
    const absl::Status status = product.Run(stream, tensors, workspace.get());
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
    results.push_back(Read(made, spec.result, count));
  }
  return results;
}

class CudnnProductsGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto devices = millrace::cuda::CountDevices();
    if (!devices.ok()) GTEST_SKIP() << devices.status();
    auto products = CudnnProducts::Make({});
    const bool is_absent = std::getenv("MILLRACE_CUDNN_LIBRARY") == nullptr &&
                           absl::IsFailedPrecondition(products.status());
    if (is_absent || absl::IsUnimplemented(products.status())) GTEST_SKIP() << products.status();
    ASSERT_TRUE(products.ok()) << products.status();
    products_ = *std::move(products);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // Returns false if there is no plan.
  bool Check(const ProductSpec& spec) {
    SCOPED_TRACE(Describe(spec));
    const auto product = products_->MakeProduct(spec);
    if (absl::IsUnimplemented(product.status())) return false;
    EXPECT_TRUE(product.ok()) << product.status();
    if (!product.ok()) return false;
    const Tensors tensors = RandomTensors(spec);
    const Values expected = Expected(spec, tensors);
    for (const double value : expected) EXPECT_LE(std::abs(value), 256);
    for (const Values& made : Computed(spec, **product, tensors, stream_)) {
      EXPECT_EQ(made, expected) << (*product)->Describe();
    }
    return true;
  }

  // The first plans, each of which computes the same values.
  void CheckPlans(const ProductSpec& spec) {
    const auto plans = products_->PlansOf(spec, 8);
    ASSERT_TRUE(plans.ok()) << plans.status();
    std::vector<ProductRequest> requests;
    for (const std::string& plan : *plans) requests.push_back({spec, plan});
    const Tensors tensors = RandomTensors(spec);
    const Values expected = Expected(spec, tensors);
    int num_made = 0;
    for (const MadeProduct& product : products_->MakeProducts(
             requests, 4, [](const std::function<absl::Status()>& body) { return body(); })) {
      if (!product.ok()) continue;
      ++num_made;
      for (const Values& made : Computed(spec, **product, tensors, stream_)) {
        EXPECT_EQ(made, expected) << (*product)->Describe();
      }
    }
    EXPECT_GT(num_made, 1);
  }

  // The three passes, which all have a plan.
  void CheckPasses(ProductSpec spec) {
    for (const ProductPass pass :
         {ProductPass::kForward, ProductPass::kDataGradient, ProductPass::kWeightGradient}) {
      spec.pass = pass;
      EXPECT_TRUE(Check(spec)) << Describe(spec);
    }
  }

  std::unique_ptr<CudnnProducts> products_;
  cudaStream_t stream_ = nullptr;
};

// With as many places as the window has in the image.
ProductSpec Sized(ProductSpec spec) {
  const Window& window = spec.window;
  const auto places = [&](int64_t extent, int i) {
    const int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
    return (extent + window.padding[2 * i] + window.padding[2 * i + 1] - reach) / window.stride[i] +
           1;
  };
  spec.out_height = places(spec.height, 0);
  spec.out_width = places(spec.width, 1);
  return spec;
}

ProductSpec Convolution(DType type, int64_t channels, int64_t filters, const Window& window) {
  ProductSpec spec;
  spec.rows = 3;
  spec.height = 11;
  spec.width = 8;
  spec.channels = channels;
  spec.filters = filters;
  spec.window = window;
  spec.type = spec.result = type;
  return Sized(spec);
}

const Window kWindows[] = {
    {.kernel = {1, 1}},
    {.kernel = {3, 3}, .padding = {1, 1, 1, 1}},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}},
    {.kernel = {5, 5}, .stride = {2, 2}, .padding = {1, 2, 1, 2}},
    {.kernel = {3, 1}, .stride = {1, 2}, .dilation = {2, 1}, .padding = {2, 0, 0, 0}},
};
constexpr DType kTypes[] = {DType::kBF16, DType::kF16, DType::kF32};

TEST_F(CudnnProductsGpuTest, WindowsAreThoseOfTheHost) {
  for (const DType type : kTypes) {
    for (const Window& window : kWindows) {
      CheckPasses(Convolution(type, 8, 16, window));
      CheckPasses(Convolution(type, 1, 8, window));
      CheckPasses(Convolution(type, 3, 5, window));
    }
  }
}

TEST_F(CudnnProductsGpuTest, EveryPlanThatMayBeTunedComputesTheSame) {
  for (const ProductPass pass :
       {ProductPass::kForward, ProductPass::kDataGradient, ProductPass::kWeightGradient}) {
    ProductSpec spec = Convolution(DType::kBF16, 8, 16, kWindows[1]);
    spec.pass = pass;
    CheckPlans(spec);
    spec.has_addend = pass == ProductPass::kDataGradient;
    if (spec.has_addend) CheckPlans(spec);
  }
}

TEST_F(CudnnProductsGpuTest, Float32MayBeRoundedToTf32) {
  ProductSpec spec = Convolution(DType::kF32, 8, 16, kWindows[1]);
  spec.tf32 = true;
  CheckPasses(spec);
}

TEST_F(CudnnProductsGpuTest, GroupsReadTheirOwnChannels) {
  for (const DType type : kTypes) {
    Window window = kWindows[1];
    window.groups = 8;
    CheckPasses(Convolution(type, 8, 8, window));
    CheckPasses(Convolution(type, 32, 64, window));
  }
}

TEST_F(CudnnProductsGpuTest, ImagesOfOnePixelAreFullyConnected) {
  for (const DType type : kTypes) {
    ProductSpec spec = Convolution(type, 50, 10, kWindows[0]);
    spec.height = spec.width = 1;
    CheckPasses(Sized(spec));
  }
}

TEST_F(CudnnProductsGpuTest, EpiloguesAreDoneWhereThereIsAPlan) {
  int done = 0;
  for (const DType type : kTypes) {
    for (const Window& window : kWindows) {
      ProductSpec spec = Convolution(type, 8, 16, window);
      spec.has_bias = true;
      done += Check(spec);
      spec.has_relu = true;
      done += Check(spec);
      spec.has_bias = spec.has_relu = false;
      spec.result = DType::kF32;
      done += Check(spec);
      spec.pass = ProductPass::kWeightGradient;
      done += Check(spec);
      spec.pass = ProductPass::kDataGradient;
      spec.result = type;
      spec.has_addend = true;
      done += Check(spec);
    }
  }
  EXPECT_GT(done, 0);
}

// With MILLRACE_DEVICE_PROPERTIES, what cuDNN tells of the device is written to that file: such
// files are testdata/h100.json and others.
TEST_F(CudnnProductsGpuTest, PropertiesOfTheDeviceStandForIt) {
  const std::string properties = products_->DeviceProperties();
  ASSERT_NE(properties, "");
  const char* const file = std::getenv("MILLRACE_DEVICE_PROPERTIES");
  if (file != nullptr) std::ofstream(file) << properties << '\n';
  const auto described = CudnnProducts::Make({.device_properties = properties});
  ASSERT_TRUE(described.ok()) << described.status();
  const ProductSpec spec = Convolution(DType::kBF16, 8, 16, kWindows[1]);
  const auto here = products_->Choose(spec);
  const auto there = (*described)->Choose(spec);
  ASSERT_TRUE(here.ok() && there.ok()) << here.status() << there.status();
  EXPECT_EQ(here->name, there->name);
}

}  // namespace
}  // namespace millrace::trainer::cuda
