// How a network gives its work to a device: captured or not, deferred, with faults, from fields
// that are on the device, and what it says of its memory and its gradients.

#include "trainer/backend/cuda/network.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/messages.h"
#include "tests/trainer/backend/cuda/tested_device.h"
#include "tests/trainer/backend/nets.h"

namespace millrace::trainer::cuda {
namespace {

// What some steps leave behind.
struct Outcome {
  std::vector<double> losses;
  std::vector<TensorSet> gradients;
  TensorSet statistics;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

class DeviceNetworkTest : public ::testing::Test {
 protected:
  std::unique_ptr<TestedDevice> Make(const NetworkOptions& more = {}, bool defers = false) {
    auto made = TestedDevice::Make(model_, MakeInitialWeights(model_, 3),
                                   MakeInitialBuffers(model_), options_, more, defers);
    EXPECT_TRUE(made.ok()) << made.status();
    return std::unique_ptr<TestedDevice>(static_cast<TestedDevice*>(made->release()));
  }
  // Some steps, with other samples in each, one of which has padding, and two loss scales in turn.
  Outcome Run(TestedDevice& tested, NetworkUse use = NetworkUse::kTraining) {
    Outcome outcome;
    const auto network = tested.backend().Compile(3, use);
    EXPECT_TRUE(network.ok()) << network.status();
    for (uint64_t step = 0; step < 6; ++step) {
      const Samples samples(model_, 3, step == 2 ? 1 : 0, step);
      StepInput input = samples.All();
      input.step = step;
      input.loss_scale = step % 2 == 0 ? 1 : 4;
      EXPECT_TRUE((*network)->Forward(input).ok());
      EXPECT_TRUE((*network)->Backward(Ignore).ok());
      const auto result = (*network)->Result();
      EXPECT_TRUE(result.ok()) << result.status();
      outcome.losses.push_back(result->loss_sum);
      outcome.gradients.push_back(tested.Gradients());
    }
    outcome.statistics = (*network)->statistics();
    return outcome;
  }
  Outcome RunWith(const NetworkOptions& more, bool defers = false) {
    return Run(*Make(more, defers));
  }

  const Model model_ = MakeModel(kEveryLayer);
  BackendOptions options_ = 1;
};

TEST_F(DeviceNetworkTest, GraphsAndRecycledMemoryAndALateDeviceChangeNoBit) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16}) {
    options_.precision = precision;
    const Outcome expected = RunWith({});
    EXPECT_NE(expected.losses[0], expected.losses[1]);
    EXPECT_EQ(RunWith({}), expected) << "again";
    EXPECT_EQ(RunWith({.captures = true}), expected);
    EXPECT_EQ(RunWith({.captures = true, .graph_ends = {12, 3}}), expected);
    EXPECT_EQ(RunWith({.recycles = false}), expected);
    EXPECT_EQ(RunWith({}, /*defers=*/true), expected);
    EXPECT_EQ(RunWith({.captures = true}, /*defers=*/true), expected);
  }
}

TEST_F(DeviceNetworkTest, ALateDeviceSumsOverRanksToo) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 6 } }
    layer { fully_connected { outputs: 5 } } layer { batch_norm { synchronized: true } }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  options_.sum_over_ranks = [](uint64_t, std::span<double> values) {
    for (double& value : values) value *= 2;  // another rank with the same rows
    return absl::OkStatus();
  };
  std::vector<TensorSet> gradients;
  for (const bool defers : {false, true}) {
    const auto tested = TestedDevice::Make(model, MakeInitialWeights(model, 3),
                                           MakeInitialBuffers(model), options_, {}, defers);
    ASSERT_TRUE(tested.ok()) << tested.status();
    ASSERT_TRUE(TrainStep((*tested)->backend(), Samples(model, 4, 0, 1).All(), Ignore).ok());
    gradients.push_back((*tested)->Gradients());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

// The device's own copies of the fields, which the network reads in place of the host's.
TEST_F(DeviceNetworkTest, FieldsOnTheDeviceAreReadThere) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    options_.precision = precision;
    const auto tested = Make();
    const Samples samples(model_, 3, 1, 5);
    StepInput input = samples.All();
    ASSERT_TRUE(TrainStep(tested->backend(), input, Ignore).ok());
    const TensorSet expected = tested->Gradients();

    HostDevice& device = tested->device();
    std::vector<Memory> memory;
    const auto on_device = [&](const ConstTensorView& field) -> const void* {
      memory.push_back(*device.Allocate(field.size_bytes()));
      EXPECT_TRUE(device.Copy(memory.back().get(), field.data, field.size_bytes()).ok());
      return memory.back().get();
    };
    input.device_inputs = {on_device(input.inputs[0])};
    for (const ConstTensorView& target : input.targets) {
      input.device_targets.push_back(on_device(target));
    }
    input.device_targets[1] = nullptr;
    const std::vector<float> others(samples.images.size(), 7);
    input.inputs[0].data = others.data();
    ASSERT_TRUE(TrainStep(tested->backend(), input, Ignore).ok());
    EXPECT_EQ(tested->Gradients(), expected);
  }
}

// --- Gradients and segments ---

class SegmentsTest : public DeviceNetworkTest {
 protected:
  const Program& Compile(NetworkUse use = NetworkUse::kTraining) {
    tested_ = Make();
    const auto network = tested_->backend().Compile(3, use);
    EXPECT_TRUE(network.ok()) << network.status();
    return static_cast<DeviceNetwork*>(*network)->program();
  }

  std::unique_ptr<TestedDevice> tested_;
};

TEST_F(SegmentsTest, TheBackwardPassIsCutBehindEachGradient) {
  const Program& program = Compile();
  std::vector<int> order;
  for (const Segment& segment : program.backward) {
    order.insert(order.end(), segment.gradients.begin(), segment.gradients.end());
  }
  std::vector<int> expected(model_.parameters.size());
  std::iota(expected.rbegin(), expected.rend(), 0);
  EXPECT_EQ(order, expected);
}

TEST_F(SegmentsTest, AGradientIsWrittenBeforeItIsReadyAndNotBehind) {
  const Program& program = Compile();
  std::map<const void*, int> parameters;
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    parameters[tested_->model().tensors().parameters[i].gradient] = static_cast<int>(i);
  }
  std::vector<int> writes(model_.parameters.size());
  std::vector<bool> is_ready(model_.parameters.size());
  for (const Segment& segment : program.backward) {
    for (const Operation& operation : segment.operations) {
      for (const MemoryRange& range : operation.writes) {
        const auto found = parameters.find(range.memory);
        if (found == parameters.end()) continue;
        EXPECT_FALSE(is_ready[found->second]) << operation.name;
        ++writes[found->second];
      }
    }
    for (const int parameter : segment.gradients) {
      EXPECT_GT(writes[parameter], 0) << parameter;
      is_ready[parameter] = true;
    }
  }
}

TEST_F(SegmentsTest, AnEvaluationHasNoBackwardPassAndLessMemory) {
  const Program& program = Compile(NetworkUse::kEvaluation);
  EXPECT_TRUE(program.backward.empty());
  const size_t evaluation = tested_->device().device_bytes();
  Compile();
  EXPECT_LT(evaluation, tested_->device().device_bytes());
}

// Gradients of a bucket are reported together, in their order, when its last one is written.
TEST_F(SegmentsTest, AGraphHoldsAllGradientsUpToItsEnd) {
  const int last = static_cast<int>(model_.parameters.size()) - 1;
  const auto calls_before = [&](const std::vector<int>& ends, int gradient) {
    NetworkOptions more;
    more.graph_ends = ends;
    bool is_told = false;
    int count = 0;
    more.on_operation = [&](const Operation&) { count += is_told ? 0 : 1; };
    const auto tested = Make(more);
    const auto network = tested->backend().Compile(3, NetworkUse::kTraining);
    EXPECT_TRUE(network.ok()) << network.status();
    EXPECT_TRUE((*network)->Forward(Samples(model_, 3, 0, 1).All()).ok());
    int expected = last;
    const auto ready = [&](size_t i) {
      EXPECT_EQ(static_cast<int>(i), expected--);
      is_told = is_told || static_cast<int>(i) == gradient;
      return absl::OkStatus();
    };
    EXPECT_TRUE((*network)->Backward(ready).ok());
    EXPECT_EQ(expected, -1);
    return count;
  };
  EXPECT_LT(calls_before({}, last), calls_before({}, last - 4));
  EXPECT_EQ(calls_before({last - 4, 0}, last), calls_before({}, last - 4));
  EXPECT_EQ(calls_before({last - 4, 0}, 0), calls_before({}, 0));
}

// Values that are dead leave their bytes to others.
TEST_F(SegmentsTest, MemoryIsUsedAgain) {
  const auto bytes = [&](bool recycles) {
    tested_ = Make({.recycles = recycles});
    const auto network = tested_->backend().Compile(64, NetworkUse::kTraining);
    EXPECT_TRUE(network.ok()) << network.status();
    return static_cast<DeviceNetwork*>(*network)->device_bytes();
  };
  EXPECT_LT(bytes(true), 0.8 * static_cast<double>(bytes(false)));
}

// --- Faults ---

// Fails the n-th call after it is armed.
class Faults {
 public:
  explicit Faults(HostDevice& device) {
    device.fault = [this](std::string_view, const void*, const void*, size_t) -> absl::Status {
      return count_ >= 0 && count_-- == 0 ? absl::InternalError("fault") : absl::OkStatus();
    };
  }
  void Arm(int count) { count_ = count; }
  bool is_armed() const { return count_ >= 0; }

 private:
  int count_ = -1;
};

TEST_F(DeviceNetworkTest, EveryFaultOfAStepEndsItWithTheDevicesWords) {
  for (const bool captures : {false, true}) {
    const auto tested = Make({.captures = captures});
    const Samples samples(model_, 3, 0, 1);
    ASSERT_TRUE(TrainStep(tested->backend(), samples.All(), Ignore).ok());
    const TensorSet expected = tested->Gradients();
    Faults faults(tested->device());
    int count = 0;
    for (;; ++count) {
      faults.Arm(count);
      const absl::Status status = TrainStep(tested->backend(), samples.All(), Ignore).status();
      if (faults.is_armed()) break;
      ASSERT_EQ(status, absl::InternalError("fault")) << count;
    }
    EXPECT_GT(count, 10);
    faults.Arm(-1);
    ASSERT_TRUE(TrainStep(tested->backend(), samples.All(), Ignore).ok());
    EXPECT_EQ(tested->Gradients(), expected) << "a step after a fault is as any other";
  }
}

TEST_F(DeviceNetworkTest, EveryFaultOfACompilationIsReturned) {
  const auto tested = Make();
  Faults faults(tested->device());
  int count = 0;
  for (;; ++count) {
    faults.Arm(count);
    const auto network = tested->backend().Compile(3, NetworkUse::kTraining);
    if (faults.is_armed()) break;
    ASSERT_EQ(network.status().code(), absl::StatusCode::kInternal) << count;
    EXPECT_THAT(std::string(network.status().message()), ::testing::EndsWith("fault"));
  }
  EXPECT_GT(count, 5);
}

// --- Refusals ---

TEST_F(DeviceNetworkTest, WithoutMemoryItSaysHowMuchIsNeeded) {
  const auto tested = Make();
  tested->device().fault = [](std::string_view call, const void*, const void*,
                              size_t) -> absl::Status {
    if (call != "Allocate") return absl::OkStatus();
    return absl::ResourceExhaustedError("cudaMalloc: out of memory");
  };
  EXPECT_MESSAGE(tested->backend().Compile(3, NetworkUse::kTraining),
                 absl::StatusCode::kResourceExhausted);
  tested->device().fault = {};
  EXPECT_TRUE(tested->backend().Compile(3, NetworkUse::kTraining).ok());
}

TEST_F(DeviceNetworkTest, AProductThatTheDeviceLacksIsNamedWithItsLayer) {
  const auto tested = Make();
  tested->device().lacks = [](const ProductSpec& spec) { return spec.window.groups > 1; };
  EXPECT_MESSAGE(tested->backend().Compile(3, NetworkUse::kTraining),
                 absl::StatusCode::kUnimplemented);
}

TEST_F(DeviceNetworkTest, AMaxPoolOfTooManyValuesIsNamed) {
  const Model model = MakeModel(R"(layer { input_layer { shape: [20, 20, 2] } }
      layer { name: "wide" pool { kernel: 17 } } layer { fully_connected { outputs: 3 } }
      layer { softmax_cross_entropy {} })");
  const auto tested =
      TestedDevice::Make(model, MakeInitialWeights(model, 3), MakeInitialBuffers(model), 1);
  ASSERT_TRUE(tested.ok()) << tested.status();
  EXPECT_MESSAGE((*tested)->backend().Compile(3, NetworkUse::kTraining),
                 absl::StatusCode::kUnimplemented);
}

TEST_F(DeviceNetworkTest, OptionsThatDevicesDoNotHaveAreRefused) {
  options_.recomputes_activations = true;
  EXPECT_MESSAGE(TestedDevice::Make(model_, MakeInitialWeights(model_, 3),
                                    MakeInitialBuffers(model_), options_),
                 absl::StatusCode::kUnimplemented);
  options_.recomputes_activations = false;
  HostDevice device(HostKernels());
  EXPECT_MESSAGE(MakeDeviceBackend(device, model_, {}, options_),
                 absl::StatusCode::kInvalidArgument);
}

TEST_F(DeviceNetworkTest, WithoutGradientsThereIsNoTraining) {
  HostDevice device(HostKernels());
  DeviceModel on_device(device, model_, DType::kF32);
  DeviceTensors tensors = on_device.tensors();
  for (DeviceTensors::Parameter& parameter : tensors.parameters) parameter.gradient = nullptr;
  const auto backend = MakeDeviceBackend(device, model_, tensors, options_);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_MESSAGE((*backend)->Compile(3, NetworkUse::kTraining),
                 absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE((*backend)->Compile(3, NetworkUse::kEvaluation).ok());
}

TEST_F(DeviceNetworkTest, ABatchOfOtherRowsIsRefused) {
  const auto tested = Make();
  const auto network = tested->backend().Compile(3, NetworkUse::kTraining);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_MESSAGE((*network)->Forward(Samples(model_, 4, 0, 1).All()),
                 absl::StatusCode::kInvalidArgument);
}

TEST_F(DeviceNetworkTest, ItDescribesTheDeviceAndThePrecision) {
  EXPECT_EQ(Make()->backend().Describe(), "host stand-in, float32");
  options_.tf32 = true;
  EXPECT_EQ(Make()->backend().Describe(), "host stand-in, tf32");
  options_.tf32 = false;
  options_.precision = Precision::kAuto;
  EXPECT_EQ(Make()->backend().Describe(), "host stand-in, bfloat16");
}

}  // namespace
}  // namespace millrace::trainer::cuda
