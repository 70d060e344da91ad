// Updates by several threads, and of shards, have the bits of one thread's update of all weights.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/factory.h"
#include "tests/trainer/model/test_nets.h"
#include "tests/trainer/optimizer/optimizer_specs.h"
#include "trainer/compute/keep_denormals.h"
#include "trainer/compute/threads.h"
#include "trainer/job/reduction.h"
#include "trainer/strategy/strategy.h"

namespace millrace::trainer {
namespace {

constexpr int kUpdates = 5;

// So many weights that three threads have a part.
Model MakeManyWeights() {
  return MakeModel(R"(layer { input_layer { shape: 301 } }
    layer { fully_connected { outputs: 170 } } layer { relu {} }
    layer { fully_connected { outputs: 31 } } layer { softmax_cross_entropy {} })");
}

// The gradients of an update. Their largest magnitude changes from one to the next, up and down.
void Fill(Strategy& strategy, int update) {
  const float scale = std::ldexp(1.0f, update % 2 == 0 ? -update : update) / 100;
  for (const std::span<float> gradient : strategy.gradients()) {
    for (size_t k = 0; k < gradient.size(); ++k) {
      gradient[k] = scale * (static_cast<float>(k * 2654435761u % 1009) / 512 - 1);
    }
  }
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeSome(collectives::Communicator& communicator,
                                                   const Model& model, const std::string& optimizer,
                                                   int threads, bool is_sharded) {
  Job job;
  *job.mutable_optimizer() = ParseOptimizer(optimizer);
  job.mutable_reduction()->set_shard_optimizer(is_sharded);
  job.mutable_reduction()->set_bucket_bytes(1 << 16);
  FillDefaults(*job.mutable_reduction());
  StrategyOptions options;
  options.compute_threads = threads;
  return MakeStrategy(communicator, model, job.reduction(), job.optimizer(),
                      MakeSlots(job.optimizer(), model), options);
}

absl::Status UpdateSome(collectives::Communicator& communicator, const std::string& optimizer,
                        int threads, bool is_sharded, uint64_t& digest) {
  const Model model = MakeManyWeights();
  MILLRACE_ASSIGN_OR_RETURN(const auto strategy,
                            MakeSome(communicator, model, optimizer, threads, is_sharded));
  TensorSet weights = MakeInitialWeights(model, 5);
  for (int n = 0; n < kUpdates; ++n) {
    strategy->SetRows(1);
    Fill(*strategy, n);
    for (size_t i = weights.size(); i-- > 0;) MILLRACE_RETURN_IF_ERROR(strategy->MarkReady(i));
    MILLRACE_RETURN_IF_ERROR(strategy->Finish());
    const UpdateStep update = {n, static_cast<uint64_t>(n) + 1, 0.01};
    MILLRACE_RETURN_IF_ERROR(strategy->Apply(0, update, weights).status());
  }
  digest = Digest(weights);
  return absl::OkStatus();
}

uint64_t DigestOn(int ranks, const std::string& optimizer, int threads, bool is_sharded) {
  std::vector<uint64_t> digests(ranks);
  const absl::Status status = collectives::RunRanks(ranks, [&](collectives::Communicator& rank) {
    return UpdateSome(rank, optimizer, threads, is_sharded, digests[rank.rank()]);
  });
  EXPECT_TRUE(status.ok()) << status;
  return digests[0];
}

TEST(WeightUpdateTest, ThreadsHaveTheBitsOfOne) {
  for (const char* const optimizer :
       {"momentum: 0.9", "adam {} weight_decay: 0.01", "adamw {}", "rmsprop { momentum: 0.5 }",
        "lars {} weight_decay: 0.01", "lars {} group { pattern: \"fc2/*\" trust: false }"}) {
    const uint64_t expected = DigestOn(1, optimizer, 1, false);
    EXPECT_EQ(DigestOn(1, optimizer, 2, false), expected) << optimizer;
    EXPECT_EQ(DigestOn(1, optimizer, 3, false), expected) << optimizer;
  }
}

TEST(WeightUpdateTest, ShardsOnThreadsHaveTheBitsOfTheWhole) {
  for (const char* const optimizer : {"adam {}", "lars {} weight_decay: 0.01"}) {
    EXPECT_EQ(DigestOn(2, optimizer, 2, true), DigestOn(2, optimizer, 1, false)) << optimizer;
  }
}

#if defined(__x86_64__)

void SetFlushing(bool is_on) {
  RunOnThreads(3, [is_on](int, int) {
    const unsigned others = _mm_getcsr() & ~kFlushDenormals;
    _mm_setcsr(is_on ? others | kFlushDenormals : others);
  });
}

// Weights and slots may become denormal, and the backend's threads flush such numbers.
TEST(WeightUpdateTest, ThreadsThatFlushDenormalNumbersUpdateByThem) {
  constexpr float kDenormal = 1e-40f;
  const absl::Status status = collectives::RunRanks(1, [&](collectives::Communicator& rank) {
    const Model model = MakeManyWeights();
    MILLRACE_ASSIGN_OR_RETURN(const auto strategy,
                              MakeSome(rank, model, "momentum: 0.9", 3, false));
    TensorSet weights = MakeZeros(model);
    strategy->SetRows(1);
    for (const std::span<float> gradient : strategy->gradients()) {
      std::ranges::fill(gradient, kDenormal);
    }
    for (size_t i = weights.size(); i-- > 0;) MILLRACE_RETURN_IF_ERROR(strategy->MarkReady(i));
    MILLRACE_RETURN_IF_ERROR(strategy->Finish());
    SetFlushing(true);
    const absl::Status applied = strategy->Apply(0, {0, 1, 1.0}, weights).status();
    SetFlushing(false);
    for (const auto& tensor : weights) EXPECT_THAT(tensor, ::testing::Each(-kDenormal));
    return applied;
  });
  EXPECT_TRUE(status.ok()) << status;
}

#endif

}  // namespace
}  // namespace millrace::trainer
