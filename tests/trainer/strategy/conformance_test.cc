// The conformance suite of strategies: the same rows give the same weights, however ranks and
// batches share them, and Strategy keeps what its header promises. A new strategy is one more Row.

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/replicas.h"
#include "tests/collectives/tcp/tcp_ranks.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/job/job.pb.h"
#include "trainer/job/optimizer_fields.h"
#include "trainer/job/reduction.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/strategy/strategy.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;

using RankBody = std::function<absl::Status(collectives::Communicator&)>;

constexpr int kStepsOfSuite = 7;
constexpr int kRowsOfStep = 8;  // of a step, over all ranks and batches
constexpr double kRate = 0.125;

// Some parameters of several buckets, which neither 2 nor 3 ranks divide.
constexpr char kSmallNet[] = R"(layer { input_layer { shape: [5, 5, 1] } }
  layer { convolution { filters: 3 kernel: 2 } } layer { relu {} }
  layer { fully_connected { outputs: 7 } } layer { relu {} }
  layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })";

// A strategy, and what theory says about its results.
struct Row {
  std::string name;
  int ranks = 1;
  std::function<absl::Status(const RankBody&)> run = {};  // calls the body on each rank
  std::string reduction = "";                             // the job's, beside small buckets
  // The reference's rule, by which the `late` newest steps of all but the last `tail` are unknown.
  int late = 0;
  int tail = 0;
  int batches = 1;  // of a step
  // The number of ranks whose bits it has where they wait for each other and sum in order; 0: none.
  int bits_of = 0;
  // The largest difference from the reference where sums round; where they do not there is none.
  double rounding = 0;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::function<absl::Status(const RankBody&)> Threads(int ranks) {
  return [ranks](const RankBody& body) { return collectives::RunRanks(ranks, body); };
}

std::function<absl::Status(const RankBody&)> Processes(int ranks) {
  return [ranks](const RankBody& body) { return collectives::RunTcpRanks(ranks, body); };
}

std::function<absl::Status(const RankBody&)> Replicas(int processes, int replicas) {
  return [=](const RankBody& body) {
    return collectives::RunTcpRanks(processes, [&](collectives::Communicator& process) {
      MILLRACE_ASSIGN_OR_RETURN(
          auto ranks, collectives::MakeReplicas(process, replicas, std::chrono::seconds(60)));
      return collectives::RunGroup(std::move(ranks), body);
    });
  };
}

Job JobOf(const Row& row) {
  Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "optimizer { sgd { momentum: 0.5 } } reduction { bucket_bytes: 256 edge_bucket_bytes: 64 " +
          row.reduction + " }",
      &job));
  EXPECT_FALSE(CheckReduction(job.reduction()));
  FillDefaults(*job.mutable_reduction());
  FillDefaults(*job.mutable_optimizer());
  return job;
}

// The rows to train on.
struct Data {
  bool rounds = false;      // true if their sums round, so that their order counts
  bool ragged_end = false;  // true if the last step has half of the rows

  int rows_of(int step) const {
    return ragged_end && step == kStepsOfSuite - 1 ? kRowsOfStep / 2 : kRowsOfStep;
  }

  // The gradient by weight `k` of parameter `i`, whose value is `w`, of one row. Without rounding
  // it is a multiple of 1/32 below 4.
  float Gradient(int step, int row, size_t i, size_t k, float w) const {
    const uint64_t mixed = (((step * 131ull + row) * 137 + i) * 139 + k) * 0x9e3779b97f4a7c15ull;
    const float factor = static_cast<float>(mixed >> 60) / 8 - 1;
    if (rounds) return factor * (w + 0.3f);
    return factor * std::clamp(std::round(4 * w) / 4, -2.0f, 2.0f) + factor;
  }

  // Adds the gradients of rows [begin, end) of a step to `sums`.
  void AddRows(int step, int begin, int end, const TensorSet& weights,
               const std::vector<std::span<float>>& sums) const {
    for (size_t i = 0; i < sums.size(); ++i) {
      for (size_t k = 0; k < sums[i].size(); ++k) {
        for (int row = begin; row < end; ++row) {
          sums[i][k] += Gradient(step, row, i, k, weights[i][k]);
        }
      }
    }
  }
};

// A rank's end of a training.
struct RankEnd {
  TensorSet weights;
  std::vector<uint64_t> digests;  // of the weights after each step
  Slots slots;
  bool has_whole_slots = false;
  collectives::ReducerCounters counters;
  size_t num_ready = 0;
};

void FillZero(const std::vector<std::span<float>>& spans) {
  for (const std::span<float> span : spans) std::ranges::fill(span, 0.0f);
}

// One batch of a step, which may be one that the step lacks.
absl::Status RunBatch(const collectives::Communicator& communicator, const Row& row,
                      const Data& data, int step, int batch, const TensorSet& weights,
                      Strategy& strategy) {
  const int size = kRowsOfStep / row.batches;
  const int rows = std::min(size, data.rows_of(step) - batch * size);
  if (rows <= 0) return strategy.FinishEmptyBatch();
  const int begin = batch * size + rows * communicator.rank() / communicator.size();
  const int end = batch * size + rows * (communicator.rank() + 1) / communicator.size();
  strategy.SetRows(end - begin);
  const std::vector<std::span<float>> gradients = strategy.gradients();
  FillZero(gradients);
  data.AddRows(step, begin, end, weights, gradients);
  for (size_t i = gradients.size(); i-- > 0;) MILLRACE_RETURN_IF_ERROR(strategy.MarkReady(i));
  return strategy.Finish();
}

absl::StatusOr<std::unique_ptr<Strategy>> Make(collectives::Communicator& communicator,
                                               const Model& model, const Row& row) {
  const Job job = JobOf(row);
  StrategyOptions options;
  options.steps = kStepsOfSuite;
  return MakeStrategy(communicator, model, job.reduction(), job.optimizer(),
                      MakeSlots(job.optimizer(), model), options);
}

absl::Status TrainRank(collectives::Communicator& communicator, const Row& row, const Data& data,
                       RankEnd& trained) {
  const Model model = MakeModel(kSmallNet);
  MILLRACE_ASSIGN_OR_RETURN(const auto strategy, Make(communicator, model, row));
  trained.weights = MakeInitialWeights(model, 3);
  const float* const memory = strategy->gradients()[0].data();
  for (int step = 0; step < kStepsOfSuite; ++step) {
    for (int batch = 0; batch < row.batches; ++batch) {
      MILLRACE_RETURN_IF_ERROR(
          RunBatch(communicator, row, data, step, batch, trained.weights, *strategy));
      if (batch + 1 == row.batches) continue;
      EXPECT_EQ(strategy->num_ready(), 0u) << "batch " << batch << " of step " << step;
    }
    for (size_t i = 0; i < strategy->num_ready(); ++i, ++trained.num_ready) {
      const auto count = static_cast<int64_t>(trained.num_ready);
      const UpdateStep update = {count, trained.num_ready + 1, kRate};
      MILLRACE_RETURN_IF_ERROR(strategy->Apply(i, update, trained.weights).status());
    }
    EXPECT_EQ(strategy->gradients()[0].data(), memory) << "gradients stay in one place";
    trained.digests.push_back(Digest(trained.weights));
  }
  trained.counters = strategy->counters();
  trained.has_whole_slots = strategy->has_whole_slots();
  MILLRACE_ASSIGN_OR_RETURN(const Slots* const slots, strategy->GatherSlots());
  trained.slots = *slots;
  return absl::OkStatus();
}

std::vector<RankEnd> Train(const Row& row, const Data& data) {
  std::vector<RankEnd> trained(row.ranks);
  const absl::Status status = row.run([&](collectives::Communicator& communicator) {
    return TrainRank(communicator, row, data, trained[communicator.rank()]);
  });
  EXPECT_TRUE(status.ok()) << status;
  return trained;
}

// The same training without a strategy: all rows in order, and updates as late as the row says.
RankEnd Reference(const Row& row, const Data& data) {
  const Job job = JobOf(row);
  const Model model = MakeModel(kSmallNet);
  Optimizer optimizer(job.optimizer(), model, MakeSlots(job.optimizer(), model),
                      WholeParameters(model));
  RankEnd trained;
  trained.weights = MakeInitialWeights(model, 3);
  std::vector<TensorSet> sums;
  for (int step = 0; step < kStepsOfSuite; ++step) {
    sums.push_back(MakeZeros(model));
    data.AddRows(step, 0, data.rows_of(step), trained.weights, Spans(sums.back()));
    const int late = step < kStepsOfSuite - row.tail ? row.late : 0;
    for (int due = static_cast<int>(trained.num_ready); due <= step - late; ++due) {
      const UpdateStep update = {due, ++trained.num_ready, kRate};
      for (size_t i = 0; i < trained.weights.size(); ++i) {
        for (float& sum : sums[due][i]) sum /= static_cast<float>(data.rows_of(due));
        optimizer.Apply(i, update, 1, sums[due][i], trained.weights[i]);
      }
    }
  }
  trained.slots = optimizer.slots();
  return trained;
}

class StrategyConformance : public ::testing::TestWithParam<Row> {};

TEST_P(StrategyConformance, ExactSumsGiveTheBitsOfAllRowsInOrder) {
  for (const bool ragged_end : {false, true}) {
    const Data data = {.rounds = false, .ragged_end = ragged_end};
    const RankEnd expected = Reference(GetParam(), data);
    const std::vector<RankEnd> trained = Train(GetParam(), data);
    EXPECT_EQ(trained[0].weights, expected.weights);
    ASSERT_EQ(trained[0].slots.size(), expected.slots.size());
    for (size_t s = 0; s < expected.slots.size(); ++s) {
      EXPECT_EQ(trained[0].slots[s].name, expected.slots[s].name);
      EXPECT_EQ(trained[0].slots[s].tensors, expected.slots[s].tensors);
    }
  }
}

TEST_P(StrategyConformance, RoundedSumsAreCloseToThoseOfAllRowsInOrder) {
  const Data data = {.rounds = true};
  const RankEnd expected = Reference(GetParam(), data);
  const std::vector<RankEnd> trained = Train(GetParam(), data);
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    for (size_t k = 0; k < expected.weights[i].size(); ++k) {
      ASSERT_NEAR(trained[0].weights[i][k], expected.weights[i][k], GetParam().rounding)
          << i << "[" << k << "]";
    }
  }
}

TEST_P(StrategyConformance, ItHasTheBitsOfAsManyRanksAsItSays) {
  if (GetParam().bits_of == 0) GTEST_SKIP() << "its order of sums is its own";
  const Row plain = {
      .name = "plain", .ranks = GetParam().bits_of, .run = Threads(GetParam().bits_of)};
  const Data data = {.rounds = true};
  EXPECT_EQ(Train(GetParam(), data)[0].digests, Train(plain, data)[0].digests);
}

TEST_P(StrategyConformance, AllRanksHaveTheSameWeightsAfterEachStep) {
  const std::vector<RankEnd> trained = Train(GetParam(), {.rounds = true});
  for (const RankEnd& rank : trained) {
    EXPECT_EQ(rank.digests, trained[0].digests);
    EXPECT_EQ(rank.num_ready, static_cast<size_t>(kStepsOfSuite)) << "each step's sums come once";
  }
}

TEST_P(StrategyConformance, TheStateIsWholeOnRank0AndWhereItSaysSo) {
  const std::vector<RankEnd> trained = Train(GetParam(), {.rounds = true});
  ASSERT_FALSE(trained[0].slots.empty());
  for (const RankEnd& rank : trained) {
    if (!rank.has_whole_slots) continue;
    EXPECT_EQ(rank.slots[0].tensors, trained[0].slots[0].tensors);
  }
  const TensorSet& whole = trained[0].slots[0].tensors;
  ASSERT_EQ(whole.size(), trained[0].weights.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].size(), trained[0].weights[i].size());
  }
}

TEST_P(StrategyConformance, CountersHaveEveryStepAndAllBytes) {
  for (const RankEnd& rank : Train(GetParam(), {.rounds = true})) {
    EXPECT_EQ(rank.counters.steps, kStepsOfSuite);
    size_t bytes = 0;
    for (const std::vector<float>& tensor : rank.weights) bytes += 4 * tensor.size();
    EXPECT_GE(rank.counters.total().bytes, static_cast<int64_t>(kStepsOfSuite * bytes));
    EXPECT_GT(rank.counters.buckets.size(), 1u);
  }
}

// The last rank leaves in the middle of its first batch.
TEST_P(StrategyConformance, ALeaverFreesTheOthersAndTellsThemWhy) {
  const Row& row = GetParam();
  if (row.ranks == 1) GTEST_SKIP() << "nobody is left";
  std::latch others(row.ranks - 1);
  (void)row.run([&](collectives::Communicator& communicator) -> absl::Status {
    const Model model = MakeModel(kSmallNet);
    MILLRACE_ASSIGN_OR_RETURN(const auto strategy, Make(communicator, model, row));
    if (communicator.rank() == row.ranks - 1) {
      strategy->SetRows(1);
      MILLRACE_RETURN_IF_ERROR(strategy->MarkReady(strategy->gradients().size() - 1));
      strategy->Leave(absl::ResourceExhaustedError("no memory for rank 7"));
      others.wait();
      return absl::OkStatus();
    }
    const TensorSet weights = MakeInitialWeights(model, 3);
    absl::Status status;
    for (int step = 0; status.ok() && step < kStepsOfSuite; ++step) {
      status = RunBatch(communicator, row, {}, step, 0, weights, *strategy);
    }
    EXPECT_FALSE(status.ok()) << "rank " << communicator.rank();
    EXPECT_THAT(std::string(status.message()), HasSubstr("no memory for rank 7"));
    others.count_down();
    others.wait();
    return absl::OkStatus();
  });
}

// One rank sums all rows in one order, as the reference does.
const Row kTable[] = {
    {.name = "single", .ranks = 1, .run = Threads(1), .bits_of = 1},
    {.name = "mirrored_2", .ranks = 2, .run = Replicas(1, 2), .bits_of = 2, .rounding = 1e-6},
    {.name = "multi_worker_2", .ranks = 2, .run = Processes(2), .bits_of = 2, .rounding = 1e-6},
    {.name = "mirrored_2_multi_worker_2",
     .ranks = 4,
     .run = Replicas(2, 2),
     .bits_of = 4,
     .rounding = 1e-6},
    {.name = "exact",
     .ranks = 4,
     .run = Replicas(2, 2),
     .reduction = "exact: true",
     .bits_of = 4,
     .rounding = 1e-6},
    {.name = "sharded_3",
     .ranks = 3,
     .run = Threads(3),
     .reduction = "shard_optimizer: true",
     .bits_of = 3,
     .rounding = 1e-6},
    {.name = "accumulated_2",
     .ranks = 1,
     .run = Threads(1),
     .reduction = "accumulate_steps: 2",
     .batches = 2,
     .bits_of = 2,
     .rounding = 1e-6},
    {.name = "accumulated_2_sharded_2",
     .ranks = 2,
     .run = Processes(2),
     .reduction = "accumulate_steps: 2 shard_optimizer: true",
     .batches = 2,
     .rounding = 1e-6},
    {.name = "late_2_with_a_tail_of_3",
     .ranks = 2,
     .run = Threads(2),
     .reduction = "stale_steps: 2 synchronous_tail: 3",
     .late = 2,
     .tail = 3,
     .rounding = 1e-6},
};

INSTANTIATE_TEST_SUITE_P(Strategies, StrategyConformance, testing::ValuesIn(kTable),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace millrace::trainer
