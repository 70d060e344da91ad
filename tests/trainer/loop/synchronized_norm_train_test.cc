// Trainings whose batch norms have the batch of all ranks: they are the training of one rank, but
// for the rounding of sums.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/collectives/tcp/tcp_ranks.h"
#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/job/job.h"
#include "trainer/job/models.h"
#include "trainer/model/model.h"

namespace millrace::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

using Tensors = std::map<std::string, std::vector<float>>;

// A residual block, whose second norm does the sum and the ReLU behind it too.
constexpr char kBlock[] =
    "layer { input_layer { shape: [6, 6, 1] } }\n"
    "layer { convolution { filters: 4 kernel: 3 padding: 1 bias: false } }\n"
    "layer { batch_norm { NORM } } layer { name: 'r' relu {} }\n"
    "layer { convolution { filters: 4 kernel: 3 padding: 1 bias: false } }\n"
    "layer { batch_norm { NORM } } layer { input: ['bn2', 'r'] add {} } layer { relu {} }\n"
    "layer { pool { kernel: 2 } } layer { fully_connected { outputs: 3 } }\n"
    "layer { softmax_cross_entropy {} }\n";

class SynchronizedNormTrainTest : public TrainTest {
 protected:
  SynchronizedNormTrainTest() { SetNorms("synchronized: true"); }

  void SetNorms(const std::string& options) {
    Write(folder_ / "model.pbtxt", absl::StrReplaceAll(kBlock, {{"NORM", options}}));
  }
  void SetBatch(int size) {
    Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", size, true));
  }
  // Trains from the start with more fields of the job.
  Tensors Trained(int world, const std::string& more = "") {
    RemoveCheckpoints();
    WriteJob("checkpoints", "base_lr: 0.05 momentum: 0.9", absl::StrCat("epochs: 2 ", more));
    const auto outcome = Run(world);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? TensorsOf(*outcome) : Tensors();
  }
  Tensors TensorsOf(const TrainOutcome& outcome) {
    Tensors tensors;
    for (auto& [name, tensor] : Load(outcome.checkpoint).tensors) tensors[name] = tensor.data;
    return tensors;
  }

  // The largest difference of an element, relative to the largest element of its tensor.
  static double Difference(const Tensors& a, const Tensors& b) {
    double difference = a.empty() || a.size() != b.size() ? INFINITY : 0;
    for (const auto& [name, values] : a) {
      double largest = 0;
      for (const float value : values) largest = std::max<double>(largest, std::abs(value));
      for (size_t k = 0; k < values.size(); ++k) {
        difference = std::max(difference, std::abs(values[k] - b.at(name)[k]) / largest);
      }
    }
    return difference;
  }
};

// S-TRAIN-9. The last batch of an epoch has 5 rows: of 4 ranks, some have one and one has two.
TEST_F(SynchronizedNormTrainTest, AnyNumberOfRanksIsTheTrainingOfOne) {
  const Tensors one = Trained(1);
  for (const int world : {2, 4}) EXPECT_LT(Difference(one, Trained(world)), 1e-5) << world;
}

TEST_F(SynchronizedNormTrainTest, WithoutItTheBatchIsThatOfARank) {
  SetNorms("");
  const Tensors one = Trained(1);
  EXPECT_GT(Difference(one, Trained(2)), 1e-3);
  SetNorms("synchronized: true");
  EXPECT_EQ(Trained(1), one) << "on one rank it is the same";
}

// An epoch of 4 batches of 9 rows, and one of one row.
TEST_F(SynchronizedNormTrainTest, ARankWithoutRowsTakesPart) {
  SetBatch(9);
  const Tensors one = Trained(1);
  for (const int world : {2, 4}) {
    EXPECT_LT(Difference(one, Trained(world, "reduction { digest_every: 1 }")), 1e-5) << world;
  }
}

// Every comparison of the weights and buffers of all ranks is one of their bits.
TEST_F(SynchronizedNormTrainTest, AllRanksHaveTheSameBitsWhateverTheReduction) {
  for (const char* const reduction :
       {"", "accumulate_steps: 2", "stale_steps: 2", "shard_optimizer: true",
        "progress_policy: 'thread' bucket_bytes: 64 edge_bucket_bytes: 64", "exact: true"}) {
    SCOPED_TRACE(reduction);
    const std::string more = absl::StrCat("reduction { digest_every: 1 ", reduction, " }");
    const Tensors two = Trained(2, more);
    EXPECT_THAT(lines_, Contains(HasSubstr("ranks exchange sums amid the step")));
    EXPECT_LT(Difference(Trained(1, more), two), 1e-5);
  }
}

TEST_F(SynchronizedNormTrainTest, OverTcpItHasTheBitsOfThreads) {
  const Tensors threads = Trained(3, "reduction { exact: true }");
  run_ranks_ = collectives::RunTcpRanks;
  EXPECT_EQ(Trained(3, "reduction { exact: true }"), threads);
}

TEST_F(SynchronizedNormTrainTest, StoppedOrRecomputedItHasTheSameBits) {
  const Tensors whole = Trained(2);
  EXPECT_EQ(Trained(2, "recompute_activations: true"), whole);
  RemoveCheckpoints();
  ASSERT_TRUE(Run(2, false, 4).ok());
  const auto resumed = Run(2, true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(TensorsOf(*resumed), whole);
}

TEST_F(SynchronizedNormTrainTest, RoundedToBFloat16RanksHaveTheSameBits) {
  WriteJob("checkpoints", "base_lr: 0.05",
           "epochs: 2 precision: \"bfloat16\" reduction { digest_every: 1 }");
  const auto two = Run(2);
  if (absl::IsInvalidArgument(two.status())) GTEST_SKIP() << two.status();
  ASSERT_TRUE(two.ok()) << two.status();
  const Tensors of_two = TensorsOf(*two);
  RemoveCheckpoints();
  const auto one = Run(1);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_LT(Difference(TensorsOf(*one), of_two), 0.1);
}

TEST_F(SynchronizedNormTrainTest, WorkersOfServersAreRefusedIt) {
  WriteJob("checkpoints", "", "epochs: 2\nstrategy { parameter_server {} }");
  std::set<std::string> used;
  const auto job = LoadJob(folder_ / "job.pbtxt", {}, used);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_MESSAGE(LoadModels(*job, {}, used), absl::StatusCode::kInvalidArgument);
  SetNorms("");
  EXPECT_TRUE(LoadModels(*job, {}, used).ok());
}

}  // namespace
}  // namespace millrace::trainer
