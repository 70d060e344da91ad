#include "cli/bench/buffer.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::cli {

absl::StatusOr<BenchBuffer> BenchBuffer::Make(collectives::Communicator& communicator,
                                              uint64_t bytes) {
  BenchBuffer buffer;
  buffer.host_.reset(static_cast<std::byte*>(::operator new[](bytes, kAlignment, std::nothrow)));
  if (buffer.host_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
  }
  buffer.device_ = communicator.on_device();
  if (buffer.device_ == nullptr) return buffer;
  MILLRACE_ASSIGN_OR_RETURN(void* const memory, buffer.device_->Allocate(bytes));
  buffer.device_data_ = static_cast<std::byte*>(memory);
  return buffer;
}

absl::Status BenchBuffer::Upload(uint64_t bytes) {
  return device_ == nullptr ? absl::OkStatus() : device_->Copy(device_data_, host_.get(), bytes);
}

absl::Status BenchBuffer::Download(uint64_t bytes) {
  return device_ == nullptr ? absl::OkStatus() : device_->Copy(host_.get(), device_data_, bytes);
}

}  // namespace millrace::cli
