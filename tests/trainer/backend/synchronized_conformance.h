#ifndef MILLRACE_TESTS_TRAINER_BACKEND_SYNCHRONIZED_CONFORMANCE_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_SYNCHRONIZED_CONFORMANCE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>

#include "collectives/factory.h"
#include "tests/trainer/backend/tested_backend.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/ranks/agree.h"

// Batch norms whose batch is that of all ranks: ranks as threads, each with a backend of its own,
// against one rank that has all rows.

namespace millrace::trainer {

// A residual block: its second norm does the sum and the ReLU behind it, too.
inline Model SynchronizedBlock() {
  return MakeModel(R"(layer { input_layer { shape: [4, 4, 3] } }
    layer { convolution { filters: 5 kernel: 3 padding: 1 bias: false } }
    layer { name: "n1" batch_norm { synchronized: true } } layer { name: "r" relu {} }
    layer { convolution { filters: 5 kernel: 3 padding: 1 bias: false } }
    layer { name: "n2" batch_norm { synchronized: true } }
    layer { input: ["n2", "r"] add {} } layer { relu {} }
    layer { global_average_pool {} } layer { fully_connected { outputs: 3 } }
    layer { softmax_cross_entropy {} })");
}

// The rows of each rank: from one number to the next.
using Cuts = std::vector<int64_t>;

struct Step {
  std::vector<TensorSet> statistics;  // by rank
  TensorSet gradients;                // the sum over ranks
};

class SynchronizedConformanceTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  // One step of `samples`, cut for the ranks; without `sums` no rank hears of the others.
  Step Run(const Samples& samples, const Cuts& cuts, bool sums = true) {
    const auto world = static_cast<int>(cuts.size()) - 1;
    Step step;
    step.statistics.resize(world);
    step.gradients = MakeZeros(model_);
    const absl::Status status =
        collectives::RunRanks(world, [&](collectives::Communicator& communicator) -> absl::Status {
          BackendOptions options = options_;
          const auto sum = [&](uint64_t, std::span<double> values) {
            return SumOverRanks(communicator, values);
          };
          if (sums) options.sum_over_ranks = sum;
          MILLRACE_ASSIGN_OR_RETURN(const auto tested,
                                    GetParam().make(model_, weights_, buffers_, options));
          const int rank = communicator.rank();
          const StepInput input = samples.Slice(cuts[rank], cuts[rank + 1], samples.num_valid());
          MILLRACE_RETURN_IF_ERROR(TrainStep(tested->backend(), input, Ignore).status());
          MILLRACE_ASSIGN_OR_RETURN(
              const Network* const network,
              tested->backend().Compile(cuts[rank + 1] - cuts[rank], NetworkUse::kTraining));
          const TensorSet gradients = tested->Gradients();
          const std::lock_guard lock(mu_);
          step.statistics[rank] = network->statistics();
          for (size_t i = 0; i < gradients.size(); ++i) {
            std::ranges::transform(gradients[i], step.gradients[i], step.gradients[i].begin(),
                                   std::plus<>());
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return step;
  }

  // Relative to the largest of a tensor's values.
  static void ExpectNear(const TensorSet& actual, const TensorSet& expected, double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      double largest = 0;
      for (const float value : expected[i]) largest = std::max<double>(largest, std::abs(value));
      for (size_t k = 0; k < expected[i].size(); ++k) {
        EXPECT_NEAR(actual[i][k], expected[i][k], tolerance * largest) << i << "[" << k << "]";
      }
    }
  }

  void ExpectAsOneRank(const Samples& samples, const Cuts& cuts, double tolerance = 1e-5) {
    const Step one = Run(samples, {cuts.front(), cuts.back()});
    const Step all = Run(samples, cuts);
    ExpectNear(all.gradients, one.gradients, tolerance);
    for (const TensorSet& statistics : all.statistics) {
      EXPECT_EQ(statistics, all.statistics[0]);
      ExpectNear(statistics, one.statistics[0], tolerance);
    }
  }

  const Model model_ = SynchronizedBlock();
  const TensorSet weights_ = MakeInitialWeights(model_, 1);
  const TensorSet buffers_ = MakeInitialBuffers(model_);
  BackendOptions options_ = 1;
  std::mutex mu_;
};

TEST_P(SynchronizedConformanceTest, RanksTogetherHaveTheGradientsAndStatisticsOfOne) {
  const Samples samples(model_, 9, 0, 1);
  for (const bool fuses : {true, false}) {
    options_.fuses = fuses;
    ExpectAsOneRank(samples, {0, 4, 9});
    ExpectAsOneRank(samples, {0, 1, 2, 5, 9});
  }
}

TEST_P(SynchronizedConformanceTest, ActivationsThatAreRecomputedKeepTheBits) {
  if (!GetParam().recomputes) GTEST_SKIP() << "it recomputes nothing";
  const Samples samples(model_, 9, 0, 1);
  const Step kept = Run(samples, {0, 4, 9});
  options_.recomputes_activations = true;
  const Step recomputed = Run(samples, {0, 4, 9});
  EXPECT_EQ(recomputed.gradients, kept.gradients);
  EXPECT_EQ(recomputed.statistics, kept.statistics);
}

TEST_P(SynchronizedConformanceTest, WithoutSumsEachRankHasABatchOfItsOwn) {
  const Samples samples(model_, 8, 0, 1);
  const Step alone = Run(samples, {0, 4, 8}, /*sums=*/false);
  EXPECT_NE(alone.statistics[0], alone.statistics[1]);
  const Step one = Run(samples, {0, 8});
  EXPECT_GT(std::abs(alone.statistics[0][0][0] - one.statistics[0][0][0]), 1e-3);
  EXPECT_EQ(Run(samples, {0, 8}, /*sums=*/false).gradients, one.gradients);
}

TEST_P(SynchronizedConformanceTest, ARankOfPaddingTakesPart) {
  const Samples samples(model_, 8, 4, 1);
  ExpectAsOneRank(samples, {0, 4, 8});
  ExpectAsOneRank(samples, {0, 3, 5, 8});
  const Samples padding(model_, 4, 4, 1);
  for (const TensorSet& statistics : Run(padding, {0, 2, 4}).statistics) {
    EXPECT_EQ(statistics, TensorSet(statistics.size(), std::vector<float>(5)));
  }
}

TEST_P(SynchronizedConformanceTest, AMeanFarFromZeroLeavesTheVariance) {
  Samples samples(model_, 8, 0, 1);
  for (float& value : samples.images) value += 1e4f;
  ExpectAsOneRank(samples, {0, 3, 8}, 1e-3);
}

TEST_P(SynchronizedConformanceTest, RoundedToBFloat16TheyAreNearOneRank) {
  options_.precision = Precision::kBFloat16;
  const absl::Status status = GetParam().make(model_, weights_, buffers_, options_).status();
  if (absl::IsInvalidArgument(status)) GTEST_SKIP() << status;
  const Samples samples(model_, 9, 1, 1);
  ExpectAsOneRank(samples, {0, 4, 9}, 0.03);
}

// Sums of this rank alone, which are counted and may fail.
class CountedSums {
 public:
  explicit CountedSums(int fails_at = -1) : fails_at_(fails_at) {}
  SumOverRanksFunction function() {
    return [this](uint64_t step, std::span<double>) -> absl::Status {
      EXPECT_EQ(step, 7u);
      if (++count_ == fails_at_) return absl::UnavailableError("a rank is lost");
      return absl::OkStatus();
    };
  }
  int count() const { return count_; }

 private:
  const int fails_at_;
  int count_ = 0;
};

class CountedSumsConformanceTest : public SynchronizedConformanceTest {
 protected:
  std::unique_ptr<TestedBackend> Make(CountedSums& sums) {
    options_.sum_over_ranks = sums.function();
    auto tested = GetParam().make(model_, weights_, buffers_, options_);
    EXPECT_TRUE(tested.ok()) << tested.status();
    return *std::move(tested);
  }
  static StepInput InStep7(const Samples& samples) {
    StepInput input = samples.All();
    input.step = 7;
    return input;
  }
};

TEST_P(CountedSumsConformanceTest, OnlyTrainingSums) {
  options_.recomputes_activations = GetParam().recomputes;
  CountedSums sums;
  const auto tested = Make(sums);
  const Samples samples(model_, 4, 0, 1);
  ASSERT_TRUE(EvaluateStep(tested->backend(), InStep7(samples)).ok());
  EXPECT_EQ(sums.count(), 0);
  const auto network = tested->backend().Compile(4, NetworkUse::kTraining);
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_TRUE(ForwardResult(**network, InStep7(samples)).ok());
  EXPECT_EQ(sums.count(), 2);
  EXPECT_EQ((*network)->FirstNonFinite(), "");
  EXPECT_EQ(sums.count(), 2);
  ASSERT_TRUE((*network)->Backward(Ignore).ok());
  EXPECT_EQ(sums.count(), 4);
}

TEST_P(CountedSumsConformanceTest, TheLayerWithValuesThatAreNotFiniteIsFoundWithoutSums) {
  CountedSums sums;
  const auto tested = Make(sums);
  Samples samples(model_, 4, 0, 1);
  const auto network = tested->backend().Compile(4, NetworkUse::kTraining);
  ASSERT_TRUE(network.ok()) << network.status();
  ASSERT_TRUE(ForwardResult(**network, InStep7(samples)).ok());
  samples.images[5] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(ForwardResult(**network, InStep7(samples)).ok());
  EXPECT_EQ((*network)->FirstNonFinite(), "input1");
  EXPECT_EQ(sums.count(), 4);
}

TEST_P(CountedSumsConformanceTest, ASumThatFailsEndsTheStep) {
  const Samples samples(model_, 4, 0, 1);
  for (const int at : {1, 2, 3, 4}) {
    CountedSums sums(at);
    const auto tested = Make(sums);
    const absl::Status status = TrainStep(tested->backend(), InStep7(samples), Ignore).status();
    EXPECT_EQ(status, absl::UnavailableError("a rank is lost")) << at;
    EXPECT_EQ(sums.count(), at);
  }
}

// Nothing is before it whose gradient would need the sums.
TEST_P(SynchronizedConformanceTest, TheFirstLayerSumsOnlyForward) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 2 } }
    layer { batch_norm { synchronized: true } } layer { fully_connected { outputs: 2 } }
    layer { softmax_cross_entropy {} })");
  int count = 0;
  options_.sum_over_ranks = [&count](uint64_t, std::span<double>) {
    ++count;
    return absl::OkStatus();
  };
  const auto tested =
      GetParam().make(model, MakeInitialWeights(model, 1), MakeInitialBuffers(model), options_);
  ASSERT_TRUE(tested.ok()) << tested.status();
  ASSERT_TRUE(TrainStep((*tested)->backend(), Samples(model, 4, 0, 1).All(), Ignore).ok());
  EXPECT_EQ(count, 1);
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_SYNCHRONIZED_CONFORMANCE_H_
