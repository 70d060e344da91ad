#ifndef MILLRACE_CLI_BENCH_BUFFER_H_
#define MILLRACE_CLI_BENCH_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/device_communicator.h"

namespace millrace::cli {

// Memory for the tensors of a benched call: the device's where the communicator takes that, else
// the host's. Not longer than the communicator.
class BenchBuffer {
 public:
  //   RESOURCE_EXHAUSTED  no memory
  //   UNIMPLEMENTED       an NCCL that allocates none (before 2.19)
  static absl::StatusOr<BenchBuffer> Make(collectives::Communicator& communicator, uint64_t bytes);

  // The bytes that calls take.
  std::byte* data() const { return device_ == nullptr ? host_.get() : device_data_; }
  // The same bytes for the host: current after Download, and given to the calls by Upload.
  std::byte* host() const { return host_.get(); }
  absl::Status Upload(uint64_t bytes);
  absl::Status Download(uint64_t bytes);

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct AlignedDelete {
    void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
  };

  std::unique_ptr<std::byte[], AlignedDelete> host_;
  collectives::DeviceCommunicator* device_ = nullptr;  // null: calls take the host's memory
  std::byte* device_data_ = nullptr;                   // the communicator's
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_BENCH_BUFFER_H_
