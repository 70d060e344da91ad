#ifndef MILLRACE_TESTS_TRAINER_LOOP_DEVICE_TRAIN_FIXTURE_H_
#define MILLRACE_TESTS_TRAINER_LOOP_DEVICE_TRAIN_FIXTURE_H_

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/pipeline/device/device_feed_fixture.h"
#include "tests/trainer/backend/cuda/host_device.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/model/parameters.h"

// Trainings whose layers, sums and updates are a device's work, on a device that the host stands in
// for.

namespace millrace::trainer {

// A device of the pipeline's that copies at once: its events have always passed, on any stream.
class PromptDevice final : public pipeline::Device {
 public:
  std::string_view name() const override { return "prompt"; }
  absl::StatusOr<std::byte*> Allocate(size_t bytes, void*) override { return new std::byte[bytes]; }
  void Free(std::byte* memory, void*) override { delete[] memory; }
  absl::StatusOr<void*> CreateStream() override { return this; }
  void DestroyStream(void*) override {}
  absl::StatusOr<void*> CreateEvent() override { return this; }
  void DestroyEvent(void*) override {}
  absl::Status Copy(std::byte* to, const void* from, size_t bytes, void*) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Record(void*, void*) override { return absl::OkStatus(); }
  absl::StatusOr<bool> Query(void*) override { return true; }
  absl::Status Wait(void*, void*) override { return absl::OkStatus(); }
  absl::Status Synchronize(void*) override { return absl::OkStatus(); }
};

inline absl::StatusOr<std::unique_ptr<pipeline::DeviceFeed>> PromptFeed(
    std::unique_ptr<pipeline::Pipeline> pipeline, int /*ordinal*/) {
  return pipeline::OpenFeed(std::make_shared<PromptDevice>(), std::move(pipeline),
                            {.keeps_host = true});
}

class DeviceTrainTest : public TrainTest {
 protected:
  static constexpr char kNesterov[] =
      "base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 nesterov: true";

  DeviceTrainTest() {
    change_parts_ = [this](TrainParts& parts, const collectives::Communicator& communicator) {
      parts.device.open = [this, rank = communicator.rank()](int ordinal) {
        EXPECT_EQ(ordinal, rank);
        return MakeDevice(rank);
      };
      parts.device.plans_folder = folder_ / "plans";
      parts.device.connect = connect_;
      parts.device.feed = feed_;
    };
  }

  // Ranks find unlike plans quick: 0 "eng1", 1 "eng2", and so on.
  absl::StatusOr<std::unique_ptr<cuda::Device>> MakeDevice(int rank) {
    auto device = std::make_unique<cuda::HostDevice>(cuda::HostKernels());
    device->fault = fault_;
    device->plans = {"eng0", "eng1", "eng2"};
    if (have_unlike_libraries_) device->plans_key = absl::StrCat("GPU, cuDNN 9.", rank);
    device->build = [this, rank](const std::string& plan) {
      const std::lock_guard lock(mu_);
      built_[rank].insert(plan);
      return absl::OkStatus();
    };
    device->milliseconds = [this, rank](const std::string& plan) {
      const std::lock_guard lock(mu_);
      ++num_timed_[rank];
      return plan == absl::StrCat("eng", rank + 1) ? 1 : 2;
    };
    return device;
  }
  void WriteDeviceJob(const std::string& more, const std::string& optimizer = kNesterov) {
    WriteJob("checkpoints", optimizer, absl::StrCat("epochs: 2 device: \"cuda\" ", more));
  }
  const std::vector<std::string>& KeepWarningsOfPlans() {
    adjust_ = [this](TrainOptions& options, const collectives::Communicator&) {
      options.warn = [this](std::string_view line) {
        if (line.starts_with("cudnn_plans: ")) warnings_.emplace_back(line);
      };
    };
    return warnings_;
  }
  // The newest checkpoint's tensors, in the order of their names.
  TensorSet TensorsOf(const absl::StatusOr<TrainOutcome>& outcome) {
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    TensorSet tensors;
    if (!outcome.ok()) return tensors;
    for (const auto& [name, tensor] : Load(outcome->checkpoint).tensors) {
      tensors.push_back(tensor.data);
    }
    return tensors;
  }
  TensorSet TensorsOfRun(int world, const std::string& more) {
    RemoveCheckpoints();
    WriteDeviceJob(more);
    return TensorsOf(Run(world));
  }

  decltype(DeviceParts::feed) feed_ = PromptFeed;
  // By default ranks reach this device's memory themselves.
  decltype(DeviceParts::connect) connect_ = [](collectives::Communicator&, const cuda::Device&,
                                               int) {
    return absl::StatusOr<std::unique_ptr<collectives::Communicator>>(nullptr);
  };
  decltype(cuda::HostDevice::fault) fault_;
  int calls_ = 0;  // of fault_
  // By rank.
  std::map<int, std::set<std::string>> built_;  // plans of products
  bool have_unlike_libraries_ = false;
  std::map<int, int> num_timed_;
  std::vector<std::string> warnings_;  // KeepWarningsOfPlans'
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_LOOP_DEVICE_TRAIN_FIXTURE_H_
