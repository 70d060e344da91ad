// A CUDA device, where there is one: its memory, its order, its graphs, and networks on it against
// the stand-in.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "tests/messages.h"
#include "tests/trainer/backend/cuda/tested_device.h"
#include "tests/trainer/backend/nets.h"
#include "trainer/backend/cuda/tuning/tuned_plans.h"

namespace millrace::trainer::cuda {
namespace {

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Device>> device = MakeCudaDevice(0);
    const absl::Status& status = device.status();
    const bool lacks_device = absl::StartsWith(status.message(), "no CUDA device");
    const bool lacks_cudnn =
        std::getenv("MILLRACE_CUDNN_LIBRARY") == nullptr && absl::IsFailedPrecondition(status);
    if (lacks_device || lacks_cudnn || absl::IsUnimplemented(status)) GTEST_SKIP() << status;
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  Memory Take(size_t bytes) {
    absl::StatusOr<Memory> memory = device_->Allocate(bytes);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return *std::move(memory);
  }
  std::vector<float> Read(const void* from, size_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(device_->Copy(values.data(), from, count * sizeof(float)).ok());
    EXPECT_TRUE(device_->Synchronize().ok());
    return values;
  }
  // to[i] = 2 * to[i], by a kernel.
  absl::Status Double(void* to, int64_t count) {
    BinaryArgs args;
    args.a = to;
    args.b = to;
    args.to = to;
    args.count = count;
    return device_->OnDevice([&] { return device_->kernels().binary(device_->stream(), args); });
  }

  std::unique_ptr<Device> device_;
};

TEST_F(CudaDeviceTest, MemoryIsZeroAndCopiesArrive) {
  EXPECT_THAT(device_->Describe(), ::testing::HasSubstr("CUDA device 0"));
  const Memory memory = Take(4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 256, 0u);
  EXPECT_EQ(Read(memory.get(), 1024), std::vector<float>(1024));
  absl::StatusOr<Memory> host = device_->AllocateHost(4096);
  ASSERT_TRUE(host.ok()) << host.status();
  auto* const floats = reinterpret_cast<float*>(host->get());
  for (int i = 0; i < 1024; ++i) floats[i] = static_cast<float>(i);
  ASSERT_TRUE(device_->Copy(memory.get(), floats, 4096).ok());
  ASSERT_TRUE(Double(memory.get(), 1024).ok());
  EXPECT_EQ(Read(memory.get(), 1024)[700], 1400);
  ASSERT_TRUE(device_->Zero(memory.get(), 4096).ok());
  EXPECT_EQ(Read(memory.get(), 1024)[700], 0);
}

TEST_F(CudaDeviceTest, AMarkHasPassedWhenTheWorkBeforeItIsDone) {
  const Memory memory = Take(4096);
  absl::StatusOr<Memory> host = device_->AllocateHost(4096);
  auto mark = device_->MakeMark();
  ASSERT_TRUE(host.ok() && mark.ok());
  EXPECT_TRUE(device_->Wait(**mark).ok()) << "one that is not recorded has passed";
  const std::vector<float> ones(1024, 1);
  ASSERT_TRUE(device_->Copy(memory.get(), ones.data(), 4096).ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Double(memory.get(), 1024).ok());
  ASSERT_TRUE(device_->Copy(host->get(), memory.get(), 4096).ok());
  ASSERT_TRUE(device_->Record(**mark).ok());
  ASSERT_TRUE(device_->Wait(**mark).ok());
  EXPECT_EQ(reinterpret_cast<const float*>(host->get())[1023], 1024);
}

TEST_F(CudaDeviceTest, AGraphDoesItsWorkWhenItIsLaunchedAndNotBefore) {
  const Memory memory = Take(4096);
  const std::vector<float> ones(1024, 1);
  ASSERT_TRUE(device_->Copy(memory.get(), ones.data(), 4096).ok());
  ASSERT_TRUE(Double(memory.get(), 1024).ok());
  ASSERT_TRUE(device_->BeginCapture().ok());
  ASSERT_TRUE(Double(memory.get(), 1024).ok());
  ASSERT_TRUE(Double(memory.get(), 1024).ok());
  const auto graph = device_->EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Read(memory.get(), 1)[0], 2);
  ASSERT_TRUE(device_->Launch(**graph).ok());
  ASSERT_TRUE(device_->Launch(**graph).ok());
  EXPECT_EQ(Read(memory.get(), 1)[0], 32);
}

// A 3x3 convolution of ResNet-50.
ProductSpec Convolution(ProductPass pass) {
  ProductSpec spec;
  spec.pass = pass;
  spec.rows = 64;
  spec.height = spec.width = spec.out_height = spec.out_width = 14;
  spec.channels = spec.filters = 256;
  spec.window.kernel = {3, 3};
  spec.window.padding = {1, 1, 1, 1};
  spec.type = spec.result = DType::kBF16;
  return spec;
}

TEST_F(CudaDeviceTest, TimedWorkIsDoneAndMayFail) {
  const Memory memory = Take(4096);
  const std::vector<float> ones(1024, 1);
  ASSERT_TRUE(device_->Copy(memory.get(), ones.data(), 4096).ok());
  const absl::StatusOr<double> ms = device_->Time([&] { return Double(memory.get(), 1024); });
  ASSERT_TRUE(ms.ok()) << ms.status();
  EXPECT_GT(*ms, 0);
  EXPECT_EQ(Read(memory.get(), 1)[0], 2);
  EXPECT_TRUE(absl::IsInternal(
      device_->Time([] { return absl::InternalError("the work fails"); }).status()));
}

TEST_F(CudaDeviceTest, PlansAreTunedOnceAndTakenByName) {
  std::vector<std::string> warnings;
  const auto warn = [&](std::string_view line) { warnings.emplace_back(line); };
  TunedPlans tuned(*device_, 4, warn);
  TunedPlans other(*device_, 4, warn);
  for (const ProductPass pass :
       {ProductPass::kForward, ProductPass::kDataGradient, ProductPass::kWeightGradient}) {
    const ProductSpec spec = Convolution(pass);
    const auto product = tuned.MakeProduct(spec);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(tuned.book().Find(Describe(spec)), (*product)->Describe());
    other.Fix(tuned.book());
    const auto again = other.MakeProduct(spec);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->Describe(), (*product)->Describe());
  }
  EXPECT_EQ(tuned.num_tuned(), 3);
  EXPECT_EQ(other.num_tuned(), 0);
  EXPECT_THAT(warnings, ::testing::IsEmpty());
}

TEST_F(CudaDeviceTest, MemoryThatIsNotThereIsResourceExhausted) {
  EXPECT_EQ(device_->Allocate(size_t{1} << 50).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device_->Synchronize().ok());
}

TEST_F(CudaDeviceTest, AnOrdinalThatIsNotThereIsNamed) {
  EXPECT_EQ(MakeCudaDevice(1000).status().code(), absl::StatusCode::kInvalidArgument);
}

double LargestOf(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max<double>(largest, std::abs(value));
  return largest;
}

// Of each tensor, relative to the largest of its values, or to a tenth of the largest of all:
// what is zero but for rounding, as the gradient of a bias before a batch norm, has no digits.
std::vector<double> DistancesOf(const TensorSet& actual, const TensorSet& expected) {
  double largest = 0;
  for (const std::vector<float>& tensor : expected) largest = std::max(largest, LargestOf(tensor));
  std::vector<double> distances;
  for (size_t i = 0; i < expected.size(); ++i) {
    double distance = 0;
    for (size_t k = 0; k < expected[i].size(); ++k) {
      distance = std::max<double>(distance, std::abs(actual[i][k] - expected[i][k]));
    }
    distances.push_back(distance / std::max(LargestOf(expected[i]), 0.1 * largest));
  }
  return distances;
}

struct Outcome {
  double loss = 0;
  TensorSet gradients;
};

class CudaNetworkTest : public CudaDeviceTest {
 protected:
  // The last of some steps of one batch.
  Outcome Run(Device& device, const Model& model, Precision precision, bool captures) {
    BackendOptions options(1);
    options.precision = precision;
    Outcome outcome;
    DeviceModel on_device(device, model, ComputeType(precision));
    EXPECT_TRUE(on_device.SetWeights(MakeInitialWeights(model, 3)).ok());
    EXPECT_TRUE(on_device.SetBuffers(MakeInitialBuffers(model)).ok());
    const auto backend =
        MakeDeviceBackend(device, model, on_device.tensors(), options, {.captures = captures});
    EXPECT_TRUE(backend.ok()) << backend.status();
    const Samples samples(model, 5, 1, 4);
    for (int step = 0; step < 3; ++step) {
      const auto result = TrainStep(**backend, samples.All(), Ignore);
      EXPECT_TRUE(result.ok()) << result.status();
      if (result.ok()) outcome.loss = result->loss_sum;
    }
    outcome.gradients = on_device.Gradients().value_or(TensorSet());
    return outcome;
  }
  // The gradients of some steps, whose fields lie elsewhere each time, with padding in one, and two
  // loss scales in turn.
  std::vector<TensorSet> RunSteps(Device& device, const Model& model, const NetworkOptions& more) {
    BackendOptions options(1);
    options.precision = Precision::kBFloat16;
    DeviceModel on_device(device, model, ComputeType(options.precision));
    EXPECT_TRUE(on_device.SetWeights(MakeInitialWeights(model, 3)).ok());
    EXPECT_TRUE(on_device.SetBuffers(MakeInitialBuffers(model)).ok());
    const auto backend = MakeDeviceBackend(device, model, on_device.tensors(), options, more);
    EXPECT_TRUE(backend.ok()) << backend.status();
    std::vector<TensorSet> gradients;
    std::vector<Memory> fields;
    const auto put = [&](const ConstTensorView& field) -> const void* {
      fields.push_back(*device.Allocate(field.size_bytes()));
      EXPECT_TRUE(device.Copy(fields.back().get(), field.data, field.size_bytes()).ok());
      return fields.back().get();
    };
    for (uint64_t step = 0; step < 6; ++step) {
      const Samples samples(model, 5, step == 2 ? 1 : 0, step);
      StepInput input = samples.All();
      input.step = step;
      input.loss_scale = step % 2 == 0 ? 1 : 4;
      for (const ConstTensorView& field : input.inputs) input.device_inputs.push_back(put(field));
      for (const ConstTensorView& field : input.targets) input.device_targets.push_back(put(field));
      EXPECT_TRUE(TrainStep(**backend, input, Ignore).ok());
      gradients.push_back(on_device.Gradients().value_or(TensorSet()));
    }
    return gradients;
  }
};

TEST_F(CudaNetworkTest, GraphsChangeNoBitOfOtherSteps) {
  const Model model = MakeModel(kEveryLayer);
  const std::vector<TensorSet> expected = RunSteps(*device_, model, {});
  EXPECT_NE(expected[0], expected[1]);
  EXPECT_EQ(RunSteps(*device_, model, {.captures = true}), expected);
  EXPECT_EQ(RunSteps(*device_, model, {.captures = true, .graph_ends = {12, 3}}), expected);
}

TEST_F(CudaNetworkTest, ItComputesWhatTheStandInDoes) {
  for (const char* const net : {kEveryLayer, kTransposed}) {
    const Model model = MakeModel(net);
    for (const auto& [precision, tolerance] :
         {std::pair(Precision::kFloat32, 1e-4), std::pair(Precision::kBFloat16, 0.1),
          std::pair(Precision::kFloat16, 0.02)}) {
      SCOPED_TRACE(static_cast<int>(precision));
      HostDevice stand_in(HostKernels());
      const Outcome expected = Run(stand_in, model, precision, /*captures=*/false);
      const Outcome actual = Run(*device_, model, precision, /*captures=*/false);
      EXPECT_NEAR(actual.loss, expected.loss, tolerance * expected.loss);
      ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
      const std::vector<double> distances = DistancesOf(actual.gradients, expected.gradients);
      for (size_t i = 0; i < distances.size(); ++i) {
        EXPECT_LE(distances[i], tolerance) << model.parameters[i].name;
      }
      const Outcome captured = Run(*device_, model, precision, /*captures=*/true);
      EXPECT_EQ(captured.loss, actual.loss);
      EXPECT_EQ(captured.gradients, actual.gradients);
    }
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
