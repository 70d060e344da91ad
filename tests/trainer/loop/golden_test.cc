// The bits of trainings, by digest: a change of the trainer that moves one must say so here. The
// gradients are made of exact products, so the digests hold for every set of instructions.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "tests/trainer/backend/fake_backend.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/backend/backend.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {
namespace {

// The gradient of element k of a parameter: over the valid rows, the sum of the element itself and
// an eighth of pixel k of the row, modulo the pixels. The loss of each row is 1, every row is
// correct.
class PixelBackend final : public Backend, public Network {
 public:
  static absl::StatusOr<std::unique_ptr<Backend>> Make(const Model&, const TensorSet& weights,
                                                       const TensorSet&,
                                                       std::vector<std::span<float>> gradients,
                                                       const BackendOptions&) {
    return std::make_unique<PixelBackend>(weights, std::move(gradients));
  }

  PixelBackend(const TensorSet& weights, std::vector<std::span<float>> gradients)
      : weights_(weights), gradients_(std::move(gradients)) {}

  absl::StatusOr<Network*> Compile(int64_t, NetworkUse) override { return this; }
  absl::Status Forward(const StepInput& input) override {
    input_ = input;
    return absl::OkStatus();
  }
  absl::StatusOr<StepResult> Result() override { return CountRows(input_); }
  absl::Status Backward(const GradientReady& ready) override {
    const std::span<const float> pixels = input_.inputs[0].as<float>();
    for (size_t i = gradients_.size(); i-- > 0;) {
      std::ranges::fill(gradients_[i], 0.0f);
      for (size_t row = 0; row < input_.valid.size(); ++row) {
        if (input_.valid[row] != 0) AddRow(pixels, row, input_.valid.size(), i);
      }
      MILLRACE_RETURN_IF_ERROR(ready(i));
    }
    return absl::OkStatus();
  }
  const TensorSet& statistics() const override { return no_statistics_; }
  absl::StatusOr<std::span<const float>> output(size_t) override {
    return std::span<const float>();
  }
  absl::Status SetOutputGradient(size_t, std::span<const float>) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::span<const float>> input_gradient(size_t) override {
    return std::span<const float>();
  }
  std::string FirstNonFinite() override { return ""; }
  std::string Describe() const override { return "pixels"; }

 private:
  void AddRow(std::span<const float> pixels, size_t row, size_t rows, size_t i) {
    const size_t size = pixels.size() / rows;
    const std::span<const float> own = pixels.subspan(row * size, size);
    for (size_t k = 0; k < gradients_[i].size(); ++k) {
      gradients_[i][k] += weights_[i][k] + 0.125f * own[k % size];
    }
  }

  const TensorSet& weights_;
  const std::vector<std::span<float>> gradients_;
  const TensorSet no_statistics_;
  StepInput input_;  // of the last Forward
};

constexpr char kNesterov[] =
    "base_lr: 0.05 momentum: 0.9 nesterov: true weight_decay: 0.001 warmup_steps: 3 "
    "cosine { end_lr: 0.001 }";
constexpr char kDrops[] =
    "base_lr: 0.1 base_batch: 16 momentum: 0.5 weight_decay: 0.01 decay_bias: true "
    "warmup_epochs: 0.4 warmup_start_lr: 0.01 step { epoch: 1 epoch: 1.6 factor: 0.5 }";

struct GoldenRun {
  int world;
  const char* optimizer;
  const char* reduction;
  uint64_t digest;  // of the weights and the momentum after the last step
};

const GoldenRun kGoldenRuns[] = {
    {1, kNesterov, "", 0x16d100e5b24451e4},
    {2, kNesterov, "", 0x78444d067d0ede00},
    {4, kNesterov, "", 0xd420ca67401b8fc6},
    {1, kNesterov, "exact: true", 0x16d100e5b24451e4},
    {2, kNesterov, "exact: true", 0x78444d067d0ede00},
    {4, kNesterov, "exact: true", 0xd420ca67401b8fc6},
    {1, kNesterov, "stale_steps: 2", 0x81e13122aac52af1},
    {2, kNesterov, "stale_steps: 2 synchronous_tail: 3", 0xcb0f67a8de7b63d1},
    {2, kNesterov, "shard_optimizer: true", 0x78444d067d0ede00},
    {4, kNesterov, "shard_optimizer: true bucket_bytes: 256 edge_bucket_bytes: 64",
     0xd420ca67401b8fc6},
    {1, kNesterov, "accumulate_steps: 2", 0x571ab0c54038a14a},
    {2, kNesterov, "accumulate_steps: 2", 0x1f7eb0bcaf5c374c},
    {1, "base_lr: 0.1", "", 0x64099b6ef550f1c1},
    {1, kDrops, "", 0x5036d98258a478c8},
    {2, kDrops, "clip_norm: 0.5 skip_non_finite: true", 0x51e88ffbc4784882},
};

class GoldenTest : public TrainTest {
 protected:
  GoldenTest() {
    change_parts_ = [](TrainParts& parts, const collectives::Communicator&) {
      parts.make_backend = PixelBackend::Make;
    };
  }
  // Of the tensors, in the order of their names.
  uint64_t DigestOf(const absl::StatusOr<TrainOutcome>& outcome) {
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return 0;
    TensorSet tensors;
    for (const auto& [name, tensor] : Load(outcome->checkpoint).tensors) {
      tensors.push_back(tensor.data);
    }
    return Digest(tensors);
  }
};

TEST_F(GoldenTest, EveryKindOfTrainingKeepsItsBits) {
  for (const GoldenRun& run : kGoldenRuns) {
    RemoveCheckpoints();
    WriteJob("checkpoints", run.optimizer,
             absl::StrCat("epochs: 2 reduction { ", run.reduction, " }"));
    const uint64_t digest = DigestOf(Run(run.world));
    EXPECT_EQ(digest, run.digest) << absl::StreamFormat("{%d, %s, \"%s\"}: 0x%016x", run.world,
                                                        run.optimizer, run.reduction, digest);
  }
}

// The checkpoint was written by the first version of the trainer, after 4 steps of the first of the
// runs above.
TEST_F(GoldenTest, ACheckpointOfTheFirstVersionContinuesWithItsBits) {
  WriteJob("checkpoints", kNesterov);
  const char* const source = std::getenv("MILLRACE_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  fs::create_directories(folder_ / "checkpoints");
  fs::copy_file(fs::path(source) / "tests/trainer/loop/golden.safetensors",
                folder_ / "checkpoints/checkpoint-00000004.safetensors");
  EXPECT_EQ(DigestOf(Run(1, /*resume=*/true)), kGoldenRuns[0].digest);
}

TEST_F(GoldenTest, ACheckpointHoldsTheSameTensorsAndTheSameJob) {
  WriteJob("checkpoints", kNesterov);
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const TensorFile file = Load(outcome->checkpoint);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("conv1/bias", "conv1/weights", "fc1/bias", "fc1/weights",
                                     "momentum/conv1/bias", "momentum/conv1/weights",
                                     "momentum/fc1/bias", "momentum/fc1/weights"));
  EXPECT_EQ(file.metadata.at("format"), "millrace checkpoint 1");
  EXPECT_EQ(
      file.metadata.at("job"),
      "epochs: 2 seed: 3 optimizer { base_lr: 0.05 momentum: 0.9 nesterov: true weight_decay: "
      "0.001 warmup_steps: 3 cosine { end_lr: 0.001 } } ");
}

}  // namespace
}  // namespace millrace::trainer
