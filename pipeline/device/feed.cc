#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/device/handoff.h"
#include "pipeline/device_feed.h"

namespace millrace::pipeline {
namespace {

constexpr int kMaxRing = 1024;

}  // namespace

uint64_t DeviceBatch::index() const { return data_->index; }
uint64_t DeviceBatch::epoch() const { return data_->epoch; }
bool DeviceBatch::ends_epoch() const { return data_->ends_epoch; }
int64_t DeviceBatch::num_rows() const { return static_cast<int64_t>(data_->valid.size()); }
int64_t DeviceBatch::num_valid_rows() const { return data_->num_valid_rows; }
int64_t DeviceBatch::num_global_valid_rows() const { return data_->num_global_valid_rows; }
int64_t DeviceBatch::first_global_row() const { return data_->first_global_row; }
std::span<const uint8_t> DeviceBatch::valid() const { return data_->valid; }
std::span<const SampleId> DeviceBatch::ids() const { return data_->ids; }
std::span<const DamagedSample> DeviceBatch::damaged() const { return data_->damaged; }
const std::string& DeviceBatch::resume_token() const { return data_->resume_token; }
std::span<const std::string> DeviceBatch::names() const { return data_->names; }
const DeviceTensorView& DeviceBatch::tensor(size_t i) const { return data_->tensors[i]; }

DeviceTensorView DeviceBatch::Find(std::string_view name) const {
  const auto it = std::ranges::find(data_->names, name);
  return it == data_->names.end() ? DeviceTensorView()
                                  : data_->tensors[static_cast<size_t>(it - data_->names.begin())];
}

const Batch& DeviceBatch::host() const { return *data_->host; }

absl::Status DeviceBatch::WaitOn(void* stream) const {
  return data_->copy->slabs->device().Wait(stream, data_->copy->ready);
}

absl::Status DeviceBatch::RecordUse(void* stream) const { return data_->RecordUse(stream); }

absl::Status DeviceBatch::Synchronize(void* stream) const {
  return data_->copy->slabs->device().Synchronize(stream);
}

absl::StatusOr<bool> DeviceBatch::Ready() const { return data_->copy->Done(); }

absl::Status DeviceFeedOptions::Validate() const {
  if (device < 0)
    return absl::InvalidArgumentError("DeviceFeedOptions.device must not be negative");
  if (ring < 1 || ring > kMaxRing) {
    return absl::InvalidArgumentError(
        absl::StrCat("DeviceFeedOptions.ring is ", ring, ", must be in [1, ", kMaxRing, "]"));
  }
  if (max_device_bytes < 1) {
    return absl::InvalidArgumentError("DeviceFeedOptions.max_device_bytes must be positive");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceFeed>> DeviceFeed::Open(std::unique_ptr<Pipeline> pipeline,
                                                             const DeviceFeedOptions& options) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, MakeCudaDevice(options.device));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Handoff> handoff,
                            Handoff::Make(std::move(device), std::move(pipeline), options));
  return std::make_unique<DeviceFeed>(std::move(handoff));
}

absl::StatusOr<std::unique_ptr<DeviceFeed>> DeviceFeed::Open(const Plan& plan,
                                                             std::shared_ptr<Context> context,
                                                             OpenOptions open_options,
                                                             const DeviceFeedOptions& options) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, MakeCudaDevice(options.device));
  open_options.pinned_for = options.device;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Pipeline> pipeline,
                            Pipeline::Open(plan, std::move(context), open_options));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Handoff> handoff,
                            Handoff::Make(std::move(device), std::move(pipeline), options));
  return std::make_unique<DeviceFeed>(std::move(handoff));
}

DeviceFeed::DeviceFeed(std::unique_ptr<Handoff> handoff) : handoff_(std::move(handoff)) {}
DeviceFeed::~DeviceFeed() = default;

absl::StatusOr<std::optional<DeviceBatch>> DeviceFeed::Next() { return handoff_->Next(); }
std::optional<absl::StatusOr<std::optional<DeviceBatch>>> DeviceFeed::NextFor(
    std::chrono::nanoseconds limit) {
  return handoff_->NextFor(limit);
}
void DeviceFeed::Poll() { handoff_->Poll(); }
void DeviceFeed::Cancel() { handoff_->Cancel(); }
std::string DeviceFeed::Save() const { return handoff_->Save(); }
absl::Status DeviceFeed::Restore(const std::string& token) { return handoff_->Restore(token); }
absl::Status DeviceFeed::Seek(uint64_t batch) { return handoff_->Seek(batch); }
const Pipeline& DeviceFeed::pipeline() const { return handoff_->pipeline(); }
Pipeline& DeviceFeed::pipeline() { return handoff_->pipeline(); }
CopyProfile DeviceFeed::copies() const { return handoff_->copies(); }

}  // namespace millrace::pipeline
