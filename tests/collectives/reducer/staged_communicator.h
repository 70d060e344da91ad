#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_STAGED_COMMUNICATOR_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_STAGED_COMMUNICATOR_H_

// A communicator of device tensors behind one of host tensors: so the conformance suites, which
// know host memory only, run on a GPU.

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/status.h"
#include "collectives/communicator.h"
#include "collectives/core/pending.h"
#include "tests/collectives/cuda/gpu_memory.h"

namespace millrace::collectives {

// A copy on the GPU of one range of host bytes.
class GpuCopy {
 public:
  GpuCopy() = default;
  ~GpuCopy() { FreeOnGpu(memory_); }
  GpuCopy(const GpuCopy&) = delete;
  GpuCopy& operator=(const GpuCopy&) = delete;

  // Uninitialised where `host` is null.
  absl::Status Make(const void* host, size_t bytes) {
    host_ = static_cast<const std::byte*>(host);
    MILLRACE_ASSIGN_OR_RETURN(memory_, AllocateOnGpu(std::max<size_t>(bytes, 1)));
    return bytes == 0 || host == nullptr ? absl::OkStatus() : CopyToGpu(memory_, host, bytes);
  }
  // Where a byte of the range is on the GPU.
  void* At(const void* host) const {
    return static_cast<std::byte*>(memory_) + (static_cast<const std::byte*>(host) - host_);
  }

 private:
  const std::byte* host_ = nullptr;
  void* memory_ = nullptr;
};

class StagedCommunicator final : public Communicator {
 public:
  explicit StagedCommunicator(std::unique_ptr<Communicator> device) : device_(std::move(device)) {}

  int rank() const override { return device_->rank(); }
  int size() const override { return device_->size(); }
  int local_rank() const override { return device_->local_rank(); }
  int local_size() const override { return device_->local_size(); }
  std::string_view backend() const override { return device_->backend(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    device_->set_limits(limits());
    MILLRACE_ASSIGN_OR_RETURN(auto child, device_->Split(color, key));
    auto staged = std::make_unique<StagedCommunicator>(std::move(child));
    staged->set_limits(limits());
    return staged;
  }
  void Abort(const absl::Status& reason) override { device_->Abort(reason); }
  void Leave(const absl::Status& reason) override { device_->Leave(reason); }
  absl::Status Heard() override { return device_->Heard(); }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status& arguments) override {
    device_->set_limits(limits());
    if (!arguments.ok() || request.kind == Collective::kBarrier) return device_->Run(request);
    const auto* const in = static_cast<const std::byte*>(request.in.data);
    const auto* const out = static_cast<const std::byte*>(request.out.data);
    const size_t in_bytes = in == nullptr ? 0 : request.in.size_bytes();
    const size_t out_bytes = out == nullptr ? 0 : request.out.size_bytes();
    // In place, one is within the other, and must be there too.
    const std::less_equal<const std::byte*> upto;
    const bool out_within = upto(in, out) && upto(out + out_bytes, in + in_bytes);
    const bool in_within = upto(out, in) && upto(in + in_bytes, out + out_bytes);
    GpuCopy in_copy, out_copy;
    if (!in_within) MILLRACE_RETURN_IF_ERROR(in_copy.Make(in, in_bytes));
    if (in_within || !out_within) MILLRACE_RETURN_IF_ERROR(out_copy.Make(out, out_bytes));
    Request staged = request;
    staged.in.data = (in_within ? out_copy : in_copy).At(in);
    staged.out.data = (in_within || !out_within ? out_copy : in_copy).At(out);
    MILLRACE_RETURN_IF_ERROR(device_->Run(staged));
    if (out_bytes == 0) return absl::OkStatus();
    return CopyFromGpu(request.out.data, staged.out.data, out_bytes);
  }
  std::unique_ptr<Pending> StartChecked(const Request& request,
                                        const absl::Status& arguments) override {
    return MakeEnded(RunChecked(request, arguments));
  }

  const std::unique_ptr<Communicator> device_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_STAGED_COMMUNICATOR_H_
