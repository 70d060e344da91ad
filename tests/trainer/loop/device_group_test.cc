// Trainings whose ranks are a group of devices: several over NCCL, here a fake one, and one alone
// without it.

#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/status.h"
#include "collectives/nccl_communicator.h"
#include "tests/collectives/cuda/host_queue.h"
#include "tests/collectives/nccl/nccl_fixture.h"
#include "tests/messages.h"
#include "tests/trainer/loop/device_train_fixture.h"

namespace millrace::collectives {
namespace {

// Beside a device that has done its work when it is given: there is nothing to follow, and what
// precedes that device's work is awaited.
class PromptQueue final : public HostQueue {
 public:
  absl::Status Follow(void*) override { return absl::OkStatus(); }
  absl::Status Precede(void*) override {
    static_cast<HostStream*>(stream())->Wait();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<DeviceQueue>> Another() override {
    return std::make_unique<PromptQueue>();
  }
};

}  // namespace

// Takes the place of the library's in this program.
absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeCudaQueue(int, void*) {
  return std::make_unique<PromptQueue>();
}

}  // namespace millrace::collectives

namespace millrace::trainer {
namespace {

absl::StatusOr<std::unique_ptr<collectives::Communicator>> ConnectByNccl(
    collectives::Communicator& ranks, const cuda::Device& device, int ordinal) {
  collectives::NcclOptions options = {.library = FAKE_NCCL, .device = ordinal};
  options.gradient_stream = device.stream();
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<collectives::Communicator> group,
                            collectives::MakeNccl(ranks, options));
  return group;
}

class DeviceGroupTest : public DeviceTrainTest {
 protected:
  DeviceGroupTest() { connect_ = ConnectDevices; }
  ~DeviceGroupTest() override { unsetenv("MILLRACE_NCCL_LIBRARY"); }

  // Trains one rank, alone and over NCCL.
  void ExpectTheBitsOfNccl(const std::function<void()>& write_job) {
    setenv("MILLRACE_NCCL_LIBRARY", "/no/such/libnccl.so", 1);
    const int before = nccl_.destroyed;
    const auto train = [&](decltype(connect_) connect) {
      connect_ = std::move(connect);
      RemoveCheckpoints();
      write_job();
      return TensorsOf(Run(1));
    };
    const TensorSet alone = train(ConnectDevices);
    EXPECT_EQ(nccl_.destroyed, before);
    EXPECT_FALSE(alone.empty());
    EXPECT_EQ(alone, train(ConnectByNccl));
    EXPECT_GT(nccl_.destroyed, before);
  }

  collectives::FakeNcclControl& nccl_ = collectives::ControlOf(FAKE_NCCL);
};

TEST_F(DeviceGroupTest, OneRankHasTheSameBitsWithoutNccl) {
  const std::string small_buckets = "bucket_bytes: 256 edge_bucket_bytes: 64";
  const std::string kinds[] = {
      "",
      absl::StrCat("reduction { ", small_buckets, " } cuda_graphs: true"),
      absl::StrCat("reduction { exact: true digest_every: 1 ", small_buckets, " }"),
      absl::StrCat("reduction { shard_optimizer: true ", small_buckets, " }"),
      "reduction { stale_steps: 2 synchronous_tail: 3 }",
      "reduction { accumulate_steps: 2 clip_norm: 0.5 skip_non_finite: true }",
      "precision: \"float16\" loss_scaling { dynamic {} }"};
  for (const std::string& kind : kinds) {
    SCOPED_TRACE(kind);
    ExpectTheBitsOfNccl([&] { WriteDeviceJob(kind); });
  }
}

// Two reducers, of one team.
TEST_F(DeviceGroupTest, TwoNetworksOfOneRankHaveTheSameBitsWithoutNccl) {
  Write(folder_ / "generator.pbtxt",
        R"(layer { name: "noise" input_layer { field: "noise" shape: 4 } }
           layer { name: "fc" fully_connected { outputs: 36 } }
           layer { name: "made" reshape { shape: [6, 6, 1] } })");
  Write(folder_ / "discriminator.pbtxt",
        R"(layer { name: "image" input_layer { field: "image" shape: [6, 6, 1] } }
           layer { name: "conv" convolution { filters: 4 kernel: 3 } }
           layer { name: "relu" relu {} }
           layer { name: "fc" fully_connected { outputs: 1 } }
           layer { name: "judgement" sigmoid_cross_entropy {} })");
  ExpectTheBitsOfNccl([&] {
    Write(folder_ / "job.pbtxt",
          R"(train: "train.pbtxt" seed: 3 epochs: 2 device: "cuda" optimizer { base_lr: 0.05 }
             reduction { accumulate_steps: 2 }
             adversarial { generator { model: "generator.pbtxt" }
                           discriminator { model: "discriminator.pbtxt" } }
             checkpoint { folder: "checkpoints" })");
  });
}

TEST_F(DeviceGroupTest, AResumedTrainingWithoutNcclEndsWithTheSameBits) {
  WriteDeviceJob("");
  const TensorSet expected = TensorsOf(Run(1));
  RemoveCheckpoints();
  const auto stopped = Run(1, /*resume=*/false, /*stop_after=*/4);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  ASSERT_TRUE(stopped->stopped);
  EXPECT_EQ(TensorsOf(Run(1, /*resume=*/true)), expected);
}

TEST_F(DeviceGroupTest, SeveralRanksSumByNccl) {
  setenv("MILLRACE_NCCL_LIBRARY", FAKE_NCCL, 1);
  const int before = nccl_.destroyed;
  WriteDeviceJob("reduction { digest_every: 1 }");
  const auto outcome = Run(2);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GT(nccl_.destroyed, before);
}

TEST_F(DeviceGroupTest, WithoutNcclOneRankTrainsAndSeveralAreToldWhatIsMissing) {
  setenv("MILLRACE_NCCL_LIBRARY", "/no/such/libnccl.so", 1);
  WriteDeviceJob("");
  const auto alone = Run(1);
  EXPECT_TRUE(alone.ok()) << alone.status();
  RemoveCheckpoints();
  EXPECT_MESSAGE(Run(2), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace::trainer
