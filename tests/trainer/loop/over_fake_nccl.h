#ifndef MILLRACE_TESTS_TRAINER_LOOP_OVER_FAKE_NCCL_H_
#define MILLRACE_TESTS_TRAINER_LOOP_OVER_FAKE_NCCL_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/collectives/nccl/nccl_fixture.h"
#include "tests/trainer/backend/cuda/host_device.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/loop/train_fixture.h"

// Trainings of several ranks on devices that the host stands in for, whose gradients are summed
// over a fake NCCL. A device does its work when the host waits for it.

namespace millrace::trainer {

// Work that a device does not get past for a while; empty: none.
using Hang = std::function<void()>;

// The queue of a communicator beside a device. `hang` is asked each time that it follows the
// device's stream.
class QueueBesideDevice final : public collectives::HostQueue {
 public:
  QueueBesideDevice(cuda::Device& device, std::function<Hang()> hang)
      : device_(device), hang_(std::move(hang)) {}
  // The device's work is done here, so that the stream need not wait for it.
  absl::Status Follow(void*) override {
    MILLRACE_RETURN_IF_ERROR(device_.Synchronize());
    Hang hang = hang_();
    if (hang) static_cast<collectives::HostStream*>(stream())->Enqueue(std::move(hang));
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<collectives::DeviceQueue>> Another() override {
    return std::make_unique<QueueBesideDevice>(device_, hang_);
  }

 private:
  cuda::Device& device_;
  const std::function<Hang()> hang_;
};

// The weights, statistics and slots of a checkpoint, by name.
using Tensors = std::map<std::string, std::vector<float>>;

class FakeNcclTrainTest : public TrainTest {
 protected:
  static constexpr char kCall[] = "nccl";

  FakeNcclTrainTest() {
    Write(folder_ / "model.pbtxt",
          R"(layer { input_layer { shape: [6, 6, 1] } }
             layer { convolution { filters: 8 kernel: 3 bias: false } }
             layer { batch_norm {} } layer { relu {} } layer { pool { kernel: 2 } }
             layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
    change_parts_ = [this](TrainParts& parts, const collectives::Communicator& communicator) {
      const int rank = communicator.rank();
      parts.device.open = [this, rank](int) { return MakeDevice(rank); };
      parts.device.connect = [this](collectives::Communicator& ranks, const cuda::Device&, int) {
        return Connect(ranks);
      };
      parts.device.feed = {};
      if (change_more_) change_more_(parts, rank);
    };
    control_.on_call = [this](int rank, int) {
      return Enter(rank, kCall).ok() ? collectives::nccl::Result::kSuccess
                                     : collectives::nccl::Result::kSystemError;
    };
  }
  ~FakeNcclTrainTest() override {
    control_.on_call = nullptr;
    control_.on_begin = nullptr;
    control_.polls = 2;
    control_.peers_notice = true;
    control_.connects_by_calls = false;
  }

  void WriteJobOf(const std::string& reduction, int every_steps) {
    Write(folder_ / "job.pbtxt",
          absl::StrCat("model: \"model.pbtxt\" train: \"train.pbtxt\" eval: \"eval.pbtxt\"\n"
                       "seed: 3 log_every_steps: 1 epochs: 1 device: \"cuda\"\n"
                       "reduction { bucket_bytes: 256 edge_bucket_bytes: 64 ",
                       reduction,
                       " }\noptimizer { base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 }\n"
                       "checkpoint { folder: \"checkpoints\" every_steps: ",
                       every_steps, " keep: 100 }\n"));
  }

  // Runs as Run, and checks that nothing of NCCL is left.
  absl::StatusOr<TrainOutcome> RunOverNccl(int world, bool resume = false, int stop_after = -1) {
    calls_.assign(static_cast<size_t>(world), {});
    auto outcome = Run(world, resume, stop_after);
    EXPECT_EQ(control_.live, 0) << "communicators that nobody ended";
    EXPECT_EQ(control_.misuses, 0);
    EXPECT_EQ(control_.allocations, 0);
    EXPECT_EQ(control_.registrations, 0);
    return outcome;
  }

  // The tensors of all checkpoints, by their files' names.
  std::map<std::string, Tensors> Checkpoints() {
    std::map<std::string, Tensors> checkpoints;
    if (!fs::exists(folder_ / "checkpoints")) return checkpoints;
    for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
      if (entry.path().extension() != ".safetensors") continue;
      Tensors& tensors = checkpoints[entry.path().filename()];
      for (const auto& [name, tensor] : Load(entry.path()).tensors) tensors[name] = tensor.data;
    }
    return checkpoints;
  }

  // Called on the rank's thread before each call into its device, and before each of NCCL.
  virtual absl::Status On(int /*rank*/, size_t /*call*/) { return absl::OkStatus(); }
  // Asked on the rank's thread as it has a stream follow its device's.
  virtual Hang HangOf(int /*rank*/) { return {}; }

  collectives::FakeNcclControl& control_ = collectives::ControlOf(FAKE_NCCL);
  // False: the ranks' own group sums what devices have done as it is given.
  bool over_nccl_ = true;
  std::function<void(TrainParts& parts, int rank)> change_more_;
  // By rank, whose thread alone writes: the names of its calls, in their order.
  std::vector<std::vector<std::string>> calls_;

 private:
  absl::Status Enter(int rank, std::string_view call) {
    std::vector<std::string>& mine = calls_[static_cast<size_t>(rank)];
    mine.emplace_back(call);
    return On(rank, mine.size() - 1);
  }
  absl::StatusOr<std::unique_ptr<cuda::Device>> MakeDevice(int rank) {
    auto device = std::make_unique<cuda::HostDevice>(cuda::HostKernels(), /*defers=*/over_nccl_);
    device->fault = [this, rank](std::string_view call, const void*, const void*, size_t) {
      return Enter(rank, call);
    };
    const std::lock_guard lock(mu_);
    devices_[rank] = device.get();
    return device;
  }
  absl::StatusOr<std::unique_ptr<collectives::Communicator>> Connect(
      collectives::Communicator& ranks) {
    if (!over_nccl_) return nullptr;
    cuda::Device* device = nullptr;
    {
      const std::lock_guard lock(mu_);
      device = devices_[ranks.rank()];
    }
    collectives::NcclOptions options = {.library = FAKE_NCCL};
    options.gradient_stream = device->stream();
    MILLRACE_ASSIGN_OR_RETURN(
        std::unique_ptr<collectives::Communicator> group,
        collectives::nccl::MakeNcclOn(
            ranks, options,
            [this, device,
             rank = ranks.rank()]() -> absl::StatusOr<std::unique_ptr<collectives::DeviceQueue>> {
              return std::make_unique<QueueBesideDevice>(*device,
                                                         [this, rank] { return HangOf(rank); });
            }));
    return group;
  }

  std::map<int, cuda::Device*> devices_;  // by rank
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_LOOP_OVER_FAKE_NCCL_H_
