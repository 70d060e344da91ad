// Weights on a device, which the host stands in for, have the bits of weights on the host: with
// every optimizer and strategy, on every rank.

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"
#include "base/philox.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "tests/trainer/backend/cuda/host_device.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/model/test_nets.h"
#include "tests/trainer/optimizer/optimizer_specs.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/backend/cuda/tensors.h"
#include "trainer/job/reduction.h"
#include "trainer/strategy/strategy.h"

namespace millrace::trainer {
namespace {

using cuda::HostDevice;
using cuda::HostKernels;
using ::testing::AllOf;
using ::testing::Each;

MATCHER_P2(Fails, code, text, "") {
  return arg.code() == code && arg.message().find(text) != absl::string_view::npos;
}

// Convolutions whose order differs on a device, a parameter of several tiles, and odd sizes.
Model MakeNet() {
  return MakeModel(R"(layer { input_layer { shape: [6, 6, 4] } }
    layer { convolution { filters: 6 kernel: 3 groups: 2 padding: 1 } }
    layer { batch_norm {} } layer { relu {} }
    layer { transposed_convolution { filters: 3 kernel: 2 } }
    layer { fully_connected { outputs: 31 } } layer { relu {} }
    layer { fully_connected { outputs: 187 } } layer { relu {} }
    layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
}

// A training of these tests.
struct Training {
  std::string optimizer;
  std::string reduction = "";
  int ranks = 1;
  int steps = 20;
  DType compute = DType::kF32;
  bool skips = false;  // true if the gradients of a step are infinite
};

// Its end on one rank.
struct RankEnd {
  TensorSet weights;
  Slots slots;
  std::vector<uint16_t> compute;  // of the first product, in the device's order
};

Job JobOf(const Training& training) {
  Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "reduction { bucket_bytes: 16384 edge_bucket_bytes: 1024 " + training.reduction + " }",
      &job));
  EXPECT_FALSE(CheckReduction(job.reduction()));
  FillDefaults(*job.mutable_reduction());
  *job.mutable_optimizer() = ParseOptimizer(training.optimizer);
  return job;
}

// The gradient of a parameter, in the model's order; of many magnitudes.
std::vector<float> GradientOf(const Training& training, const Parameter& parameter, int step,
                              int rank) {
  std::vector<float> gradient(parameter.shape.num_elements());
  for (size_t k = 0; k < gradient.size(); ++k) {
    const uint64_t mixed = (((step * 131ull + rank) * 137 + HashName(parameter.name)) * 8191 + k) *
                           0x9e3779b97f4a7c15ull;
    const auto whole = static_cast<int64_t>(mixed >> 43) - (int64_t{1} << 20);
    gradient[k] = std::ldexp(static_cast<float>(whole >> (mixed % 13)), -20 + step % 3);
  }
  if (training.skips && step == 4) gradient[0] = std::numeric_limits<float>::infinity();
  return gradient;
}

// Backward's part of a step.
absl::Status MarkAll(const Training& training, const Model& model, int step, int rank,
                     Strategy& strategy) {
  strategy.SetRows(1 + rank);
  const std::vector<std::span<float>> gradients = strategy.gradients();
  for (size_t i = gradients.size(); i-- > 0;) {
    const std::vector<float> gradient = GradientOf(training, model.parameters[i], step, rank);
    if (strategy.store() != nullptr) {
      cuda::ToDeviceOrder(model.parameters[i], gradient, gradients[i]);
    } else {
      std::ranges::copy(gradient, gradients[i].begin());
    }
    MILLRACE_RETURN_IF_ERROR(strategy.MarkReady(i));
  }
  return strategy.Finish();
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeOf(const Training& training,
                                                 collectives::Communicator& communicator,
                                                 const Model& model, cuda::Device* device,
                                                 collectives::Progress* progress = nullptr) {
  const Job job = JobOf(training);
  StrategyOptions options;
  options.steps = training.steps;
  options.device = device;
  options.compute = training.compute;
  options.progress = progress;
  return MakeStrategy(communicator, model, job.reduction(), job.optimizer(),
                      MakeSlots(job.optimizer(), model), options);
}

std::vector<uint16_t> ComputeOf(const Model& model, const cuda::ParameterStore& store) {
  const auto* const copy =
      static_cast<const uint16_t*>(store.tensors().parameters[model.layers[0].weights].compute);
  return {copy, copy + model.parameters[model.layers[0].weights].shape.num_elements()};
}

absl::Status Train(const Training& training, collectives::Communicator& communicator,
                   cuda::Device* device, RankEnd& end) {
  const Model model = MakeNet();
  MILLRACE_ASSIGN_OR_RETURN(const auto strategy, MakeOf(training, communicator, model, device));
  EXPECT_EQ(strategy->store() != nullptr, device != nullptr);
  end.weights = MakeInitialWeights(model, 7);
  MILLRACE_RETURN_IF_ERROR(strategy->StoreWeights(end.weights));
  uint64_t updates = 0;
  const bool accumulates = JobOf(training).reduction().accumulate_steps() > 1;
  for (int step = 0; step < training.steps; ++step) {
    MILLRACE_RETURN_IF_ERROR(MarkAll(training, model, step, communicator.rank(), *strategy));
    if (accumulates) MILLRACE_RETURN_IF_ERROR(strategy->FinishEmptyBatch());
    for (size_t i = 0; i < strategy->num_ready(); ++i) {
      const UpdateStep update = {step, updates + 1, 0.02 / (1 + step)};
      MILLRACE_ASSIGN_OR_RETURN(const collectives::StepOutcome outcome,
                                strategy->Apply(i, update, end.weights));
      if (!outcome.skip) ++updates;
    }
  }
  EXPECT_EQ(updates, static_cast<uint64_t>(training.steps - (training.skips ? 1 : 0)));
  MILLRACE_RETURN_IF_ERROR(strategy->FetchWeights(end.weights));
  MILLRACE_ASSIGN_OR_RETURN(const Slots* const slots, strategy->GatherSlots());
  end.slots = *slots;
  if (training.compute != DType::kF32 && device != nullptr) {
    end.compute = ComputeOf(model, *strategy->store());
  }
  return absl::OkStatus();
}

enum class Where { kHost, kDevice };

std::vector<RankEnd> TrainOn(Where where, const Training& training) {
  std::vector<RankEnd> ends(training.ranks);
  const absl::Status status =
      collectives::RunRanks(training.ranks, [&](collectives::Communicator& communicator) {
        HostDevice device(HostKernels());
        return Train(training, communicator, where == Where::kDevice ? &device : nullptr,
                     ends[communicator.rank()]);
      });
  EXPECT_TRUE(status.ok()) << status;
  return ends;
}

void ExpectTheHostsBits(const Training& training) {
  SCOPED_TRACE(training.optimizer + ", " + training.reduction);
  const RankEnd expected = TrainOn(Where::kHost, training)[0];
  const std::vector<RankEnd> ends = TrainOn(Where::kDevice, training);
  for (const RankEnd& end : ends) EXPECT_EQ(end.weights, expected.weights);
  ASSERT_EQ(ends[0].slots.size(), expected.slots.size());
  for (size_t s = 0; s < expected.slots.size(); ++s) {
    EXPECT_EQ(ends[0].slots[s].name, expected.slots[s].name);
    EXPECT_EQ(ends[0].slots[s].tensors, expected.slots[s].tensors) << expected.slots[s].name;
  }
}

constexpr const char* kOptimizers[] = {
    "momentum: 0.9 weight_decay: 0.01",
    "momentum: 0.9 nesterov: true",
    "adam {} weight_decay: 0.01",
    "adamw { beta2: 0.95 } weight_decay: 0.01",
    "rmsprop {}",
    "rmsprop { momentum: 0.9 } weight_decay: 0.01",
    "rmsprop { centered: true }",
    "rmsprop { momentum: 0.9 centered: true } weight_decay: 0.01",
    "lars {} weight_decay: 0.01",
};

constexpr char kGroups[] = R"( group { pattern: "conv1/*" frozen: true }
  group { pattern: "fc2/*" lr_scale: 0.5 weight_decay: 0.1 })";

TEST(DeviceUpdateTest, EveryOptimizerHasTheBitsOfTheHost) {
  for (const std::string optimizer : kOptimizers) ExpectTheHostsBits({optimizer});
}

TEST(DeviceUpdateTest, GroupsClippedAndSkippedStepsHaveTheBitsOfTheHost) {
  for (const std::string optimizer : kOptimizers) {
    ExpectTheHostsBits({.optimizer = optimizer + kGroups,
                        .reduction = "clip_norm: 0.5 skip_non_finite: true",
                        .skips = true});
  }
}

TEST(DeviceUpdateTest, EachStrategyHasTheBitsOfTheHostOnEachRank) {
  for (const std::string optimizer :
       {"adamw {}", R"(lars {} group { pattern: "fc1/weights" trust: false })"}) {
    for (const int ranks : {1, 2, 3}) {
      for (const char* const reduction :
           {"exact: true", "shard_optimizer: true", "stale_steps: 2 synchronous_tail: 3",
            "accumulate_steps: 2", "shard_optimizer: true accumulate_steps: 2"}) {
        ExpectTheHostsBits(
            {.optimizer = optimizer + kGroups, .reduction = reduction, .ranks = ranks, .steps = 7});
      }
    }
  }
}

TEST(DeviceUpdateTest, TheWeightsOfProductsFollowTheMasters) {
  const Model model = MakeNet();
  const size_t first = model.layers[0].weights;
  for (const char* const reduction : {"", "shard_optimizer: true"}) {
    for (const DType compute : {DType::kBF16, DType::kF16}) {
      const std::vector<RankEnd> ends = TrainOn(
          Where::kDevice,
          {.optimizer = "momentum: 0.9", .reduction = reduction, .ranks = 2, .compute = compute});
      for (const RankEnd& end : ends) {
        std::vector<float> masters(end.weights[first].size());
        cuda::ToDeviceOrder(model.parameters[first], end.weights[first], masters);
        std::vector<uint16_t> rounded;
        for (const float value : masters) {
          rounded.push_back(compute == DType::kBF16 ? ToBFloat(value).bits : ToHalf(value).bits);
        }
        EXPECT_EQ(end.compute, rounded);
      }
    }
  }
}

// The buckets in which the optimizer was said to be.
class UsedBuckets final : public collectives::Progress {
 public:
  void Enter(int64_t, int bucket, collectives::Phase phase) override {
    if (phase == collectives::Phase::kUpdating && bucket >= 0) used.insert(bucket);
  }
  absl::Status Health() const override { return absl::OkStatus(); }

  std::set<int> used;
};

// A strategy of one rank on a device, and the status of `body`.
template <typename Body>
absl::Status OnDevice(const Training& training, HostDevice& device, const Body& body,
                      collectives::Progress* progress = nullptr) {
  return collectives::RunRanks(1, [&](collectives::Communicator& rank) -> absl::Status {
    const Model model = MakeNet();
    MILLRACE_ASSIGN_OR_RETURN(const auto strategy,
                              MakeOf(training, rank, model, &device, progress));
    return body(model, *strategy);
  });
}

TEST(DeviceUpdateTest, EachBucketIsSaidToBeUpdated) {
  UsedBuckets progress;
  HostDevice device(HostKernels());
  const Training training = {"momentum: 0.9"};
  const absl::Status status = OnDevice(
      training, device,
      [&](const Model& model, Strategy& strategy) -> absl::Status {
        MILLRACE_RETURN_IF_ERROR(MarkAll(training, model, 0, 0, strategy));
        TensorSet none;
        return strategy.Apply(0, {5, 1, 0.1}, none).status();
      },
      &progress);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(progress.used.size(), 2u);
}

// The device does nothing until it is waited for, so the numbers of an update must still be there
// when those of the next ones are given.
TEST(DeviceUpdateTest, UpdatesThatAreNotWaitedForHaveTheirOwnNumbers) {
  const Training training = {"momentum: 0.9"};
  const auto update = [&](const Model& model, Strategy& strategy,
                          TensorSet& weights) -> absl::Status {
    weights = MakeInitialWeights(model, 7);
    MILLRACE_RETURN_IF_ERROR(strategy.StoreWeights(weights));
    MILLRACE_RETURN_IF_ERROR(MarkAll(training, model, 0, 0, strategy));
    for (uint64_t n = 1; n <= 7; ++n) {
      const UpdateStep step = {0, n, 0.1 / static_cast<double>(n)};
      MILLRACE_RETURN_IF_ERROR(strategy.Apply(0, step, weights).status());
    }
    return strategy.FetchWeights(weights);
  };
  TensorSet expected;
  EXPECT_TRUE(collectives::RunRanks(1, [&](collectives::Communicator& rank) -> absl::Status {
                const Model model = MakeNet();
                MILLRACE_ASSIGN_OR_RETURN(const auto strategy,
                                          MakeOf(training, rank, model, nullptr));
                return update(model, *strategy, expected);
              }).ok());
  TensorSet found;
  HostDevice device(HostKernels(), /*defers=*/true);
  const absl::Status status =
      OnDevice(training, device, [&](const Model& model, Strategy& strategy) -> absl::Status {
        return update(model, strategy, found);
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(found, expected);
}

// Fails the copies of so many bytes.
HostDevice::Fault FailCopiesOf(size_t failing) {
  return [failing](std::string_view call, const void*, const void*, size_t bytes) -> absl::Status {
    if (call != "Copy" || bytes != failing) return absl::OkStatus();
    return absl::InternalError("the bus is on fire");
  };
}

TEST(DeviceUpdateTest, ACopyThatFailsNamesItsTensor) {
  const Training training = {"momentum: 0.9"};
  for (const char* const name : {"fc2/weights", "conv1/weights"}) {
    HostDevice device(HostKernels());
    const absl::Status status =
        OnDevice(training, device, [&](const Model& model, Strategy& strategy) -> absl::Status {
          const TensorSet weights = MakeInitialWeights(model, 7);
          MILLRACE_RETURN_IF_ERROR(strategy.StoreWeights(weights));
          size_t i = 0;
          while (model.parameters[i].name != name) ++i;
          device.fault = FailCopiesOf(weights[i].size() * sizeof(float));
          TensorSet fetched = weights;
          const absl::Status fetching = strategy.FetchWeights(fetched);
          EXPECT_THAT(fetching, AllOf(Fails(absl::StatusCode::kInternal, name),
                                      Fails(absl::StatusCode::kInternal, "on fire")));
          EXPECT_EQ(fetched, weights) << "half of them may be those of another step";
          const absl::Status storing = strategy.StoreWeights(weights);
          EXPECT_THAT(storing, Fails(absl::StatusCode::kInternal, name));
          const absl::Status gathering = strategy.GatherSlots().status();
          EXPECT_THAT(gathering, AllOf(Fails(absl::StatusCode::kInternal, name),
                                       Fails(absl::StatusCode::kInternal, "momentum")));
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(DeviceUpdateTest, AGradientThatIsNotCopiedToItsBucketIsNamed) {
  const Training training = {.optimizer = "momentum: 0.9", .reduction = "stale_steps: 1"};
  HostDevice device(HostKernels());
  const absl::Status status =
      OnDevice(training, device, [&](const Model& model, Strategy& strategy) -> absl::Status {
        const size_t last = model.parameters.size() - 1;
        device.fault = FailCopiesOf(model.parameters[last].shape.num_elements() * sizeof(float));
        EXPECT_THAT(MarkAll(training, model, 0, 0, strategy),
                    Fails(absl::StatusCode::kInternal, model.parameters[last].name));
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(DeviceUpdateTest, NoMemoryOnOneRankIsSaidByAll) {
  std::vector<absl::Status> made(3);
  const absl::Status status =
      collectives::RunRanks(3, [&](collectives::Communicator& rank) -> absl::Status {
        const Model model = MakeNet();
        HostDevice device(HostKernels());
        if (rank.rank() == 1) {
          device.fault = [](std::string_view call, const void*, const void*, size_t) {
            return call == "Allocate" ? absl::ResourceExhaustedError("full") : absl::OkStatus();
          };
        }
        made[rank.rank()] = MakeOf({"adam {}"}, rank, model, &device).status();
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(made, Each(AllOf(Fails(absl::StatusCode::kResourceExhausted, "rank 1"),
                               Fails(absl::StatusCode::kResourceExhausted, "full"))));
}

TEST(DeviceUpdateTest, RanksOfUnlikeOrdersAreToldSo) {
  std::vector<absl::Status> made(2);
  const absl::Status status =
      collectives::RunRanks(2, [&](collectives::Communicator& rank) -> absl::Status {
        const Model model = MakeNet();
        HostDevice device(HostKernels());
        made[rank.rank()] =
            MakeOf({"adam {}"}, rank, model, rank.rank() == 0 ? nullptr : &device).status();
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(made, Each(Fails(absl::StatusCode::kInvalidArgument, ("transposed_conv1/weights"))));
}

}  // namespace
}  // namespace millrace::trainer
