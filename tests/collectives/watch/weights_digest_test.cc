#include "collectives/weights_digest.h"

#include <vector>

#include "collectives/agreed.h"
#include "collectives/factory.h"
#include "gmock/gmock.h"
#include "tests/collectives/test_buffer.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

struct Weights {
  std::vector<float> a = std::vector<float>(300, 1.5f);
  std::vector<float> b = std::vector<float>(7, -2.0f);
  std::vector<NamedTensor> Named() const {
    return {{"conv/kernel", {a.data(), DType::kF32, Shape{300}}},
            {"fc/bias", {b.data(), DType::kF32, Shape{7}}}};
  }
};

// What all of four ranks return; `change` is made to each rank's weights.
absl::Status Compare(const std::function<void(int rank, Weights&)>& change, int64_t step = 10) {
  absl::Status outcome;
  const absl::Status run = RunRanks(4, [&](Communicator& comm) -> absl::Status {
    Weights weights;
    change(comm.rank(), weights);
    const absl::Status status = WeightsWatch(10).AfterStep(step, comm, weights.Named());
    if (!status.ok() && !IsAgreed(status)) return Fail("not marked as agreed");
    if (comm.rank() == 2) outcome = status;
    return comm.Barrier();
  });
  EXPECT_TRUE(run.ok()) << run;
  return outcome;
}

TEST(WeightsWatch, EqualBitsPass) {
  EXPECT_TRUE(Compare([](int, Weights&) {}).ok());
}

TEST(WeightsWatch, TheFirstDifferingParameterAndItsRankAreNamed) {
  const absl::Status status = Compare([](int rank, Weights& weights) {
    if (rank == 1) weights.b[6] = 0;
    if (rank == 3) weights.a[299] = 1.5000001f;
  });
  EXPECT_MESSAGE(status, absl::StatusCode::kDataLoss);
}

TEST(WeightsWatch, TheSignOfZeroIsADifference) {
  const absl::Status status =
      Compare([](int rank, Weights& weights) { weights.b[0] = rank == 2 ? -0.0f : 0.0f; });
  EXPECT_MESSAGE(status, absl::StatusCode::kDataLoss);
}

TEST(WeightsWatch, LooksEverySoManyStepsOnly) {
  EXPECT_TRUE(
      Compare([](int rank, Weights& weights) { weights.a[0] = static_cast<float>(rank); }, 9).ok());
}

TEST(CompareWeights, UnlikeNumbersOfParametersAreNamed) {
  const absl::Status run = RunRanks(3, [](Communicator& comm) -> absl::Status {
    const Weights weights;
    const std::vector<NamedTensor> all = weights.Named();
    const absl::Status status =
        CompareWeights(comm, std::span(all).first(comm.rank() == 1 ? 1 : 2));
    EXPECT_MESSAGE(status, absl::StatusCode::kDataLoss, "every-rank");
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
}

TEST(CompareWeights, NoParametersAreEqual) {
  const absl::Status run = RunRanks(2, [](Communicator& comm) { return CompareWeights(comm, {}); });
  EXPECT_TRUE(run.ok()) << run;
}

}  // namespace
}  // namespace millrace::collectives
