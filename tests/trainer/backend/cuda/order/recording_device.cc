#include "tests/trainer/backend/cuda/order/recording_device.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/trainer/backend/cuda/order/kernel_uses.h"
#include "tests/trainer/backend/cuda/order/recording_kernels.h"

namespace millrace::trainer::cuda::order {
namespace {

// Of a copy from the host, larger than a table of kernels.
constexpr size_t kMostKept = size_t{1} << 20;

class RecordedMark final : public Mark {
 public:
  explicit RecordedMark(int event) : event_(event) {}
  int event() const { return event_; }

 private:
  const int event_;
};

struct RecordedGraph final : Graph {
  std::vector<Entry> work;
};

class RecordedProduct final : public Product {
 public:
  explicit RecordedProduct(const ProductSpec& spec) : spec_(spec) {}

  size_t workspace_bytes() const override { return size_t{1} << 20; }
  absl::Status Run(void* stream, const ProductTensors& tensors, void* workspace) const override {
    Uses uses = UsesOf(spec_, tensors);
    uses.writes.push_back({workspace, workspace_bytes()});
    Recording::Stream* const handle = Recording::ToStream(stream);
    handle->recording.Work(handle->number, NameOf(spec_.pass), uses);
    return absl::OkStatus();
  }
  std::string Describe() const override { return "recorded"; }

 private:
  static const char* NameOf(ProductPass pass) {
    if (pass == ProductPass::kForward) return "product";
    return pass == ProductPass::kDataGradient ? "data gradient" : "weight gradient";
  }

  const ProductSpec spec_;
};

}  // namespace

RecordingDevice::RecordingDevice(Recording& recording)
    : recording_(recording), stream_(recording.MakeStream("compute")) {}

const Kernels& RecordingDevice::kernels() const { return RecordingKernels(); }

absl::StatusOr<Memory> RecordingDevice::Allocate(size_t bytes) {
  MILLRACE_RETURN_IF_ERROR(CheckNotCapturing("Allocate"));
  std::byte* const memory = recording_.Allocate(bytes, "of the device");
  recording_.Work(kHost, "zeros of an allocation", {.writes = {{memory, bytes}}});
  return Memory(memory, [this](std::byte* freed) { recording_.Free(freed); });
}

absl::StatusOr<Memory> RecordingDevice::AllocateHost(size_t bytes) {
  auto* const memory = new std::byte[bytes]();
  recording_.AddHostMemory(memory, bytes, "of the host");
  recording_.Work(kHost, "zeros of an allocation", {.writes = {{memory, bytes}}});
  return Memory(memory, [this](std::byte* freed) {
    recording_.RemoveHostMemory(freed);
    delete[] freed;
  });
}

MadeProduct RecordingDevice::MakeProduct(const ProductSpec& spec) {
  return std::make_unique<RecordedProduct>(spec);
}

std::vector<MadeProduct> RecordingDevice::MakeProducts(std::span<const ProductRequest> requests,
                                                       int /*threads*/) {
  std::vector<MadeProduct> made;
  for (const ProductRequest& request : requests) made.push_back(MakeProduct(request.spec));
  return made;
}

absl::Status RecordingDevice::Copy(void* to, const void* from, size_t bytes) {
  Uses uses = {{{from, bytes}}, {{to, bytes}}};
  const bool reads_host = recording_.IsHostMemory(from);
  const bool writes_host = recording_.IsHostMemory(to);
  if (reads_host || writes_host) MILLRACE_RETURN_IF_ERROR(CheckNotCapturing("Copy"));
  if (writes_host) {
    copied_.push_back({to, bytes});
    recording_.Enter("", {});
  }
  if (reads_host) recording_.Work(kHost, "fill", {.writes = {{from, bytes}}});
  if (!recording_.IsDeviceMemory(from) && !reads_host) uses.reads.clear();
  if (!recording_.IsDeviceMemory(to) && !writes_host) uses.writes.clear();
  const bool is_small = bytes <= kMostKept && !recording_.IsDeviceMemory(from);
  if (is_small && recording_.IsDeviceMemory(to)) recording_.KeepContents(to, from, bytes);
  recording_.Work(number(), "copy", uses);
  return absl::OkStatus();
}

absl::Status RecordingDevice::Zero(void* memory, size_t bytes) {
  recording_.Work(number(), "zero", {.writes = {{memory, bytes}}});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mark>> RecordingDevice::MakeMark() {
  return std::make_unique<RecordedMark>(recording_.MakeEvent());
}

absl::Status RecordingDevice::Record(Mark& mark) {
  MILLRACE_RETURN_IF_ERROR(CheckNotCapturing("Record"));
  recording_.Record(static_cast<RecordedMark&>(mark).event(), number());
  return absl::OkStatus();
}

absl::Status RecordingDevice::Wait(const Mark& mark) {
  recording_.Wait(kHost, static_cast<const RecordedMark&>(mark).event());
  return absl::OkStatus();
}

absl::Status RecordingDevice::Synchronize() {
  MILLRACE_RETURN_IF_ERROR(CheckNotCapturing("Synchronize"));
  recording_.Order(number(), kHost);
  return absl::OkStatus();
}

absl::Status RecordingDevice::BeginCapture() {
  MILLRACE_RETURN_IF_ERROR(CheckNotCapturing("BeginCapture"));
  recording_.BeginCapture(number());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Graph>> RecordingDevice::EndCapture() {
  if (!recording_.is_capturing()) return absl::InternalError("EndCapture without a capture");
  auto graph = std::make_unique<RecordedGraph>();
  graph->work = recording_.EndCapture();
  return graph;
}

absl::Status RecordingDevice::Launch(const Graph& graph) {
  MILLRACE_RETURN_IF_ERROR(CheckNotCapturing("Launch"));
  recording_.Launch(static_cast<const RecordedGraph&>(graph).work);
  return absl::OkStatus();
}

void RecordingDevice::ReadByHost() {
  recording_.Work(kHost, "look at copies", {.reads = std::exchange(copied_, {})});
}

absl::Status RecordingDevice::CheckNotCapturing(const char* call) const {
  if (!recording_.is_capturing()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, " in a capture"));
}

}  // namespace millrace::trainer::cuda::order
