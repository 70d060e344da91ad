#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/batch/host_allocator.h"
#include "pipeline/cuda/driver.h"
#include "pipeline/cuda/primary_context.h"

namespace millrace::pipeline {
namespace {

using cuda::CurrentContext;
using cuda::PrimaryContext;

// The memory ends with the context in which it was allocated, so the allocator holds that.
class PinnedAllocator final : public HostAllocator {
 public:
  explicit PinnedAllocator(std::shared_ptr<const PrimaryContext> context)
      : context_(std::move(context)) {}

  // The driver returns whole pages, and maps large blocks with large pages itself. Portable: page-
  // locked for the contexts of all devices.
  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    const CurrentContext current(*context_);
    MILLRACE_RETURN_IF_ERROR(current.status());
    void* memory = nullptr;
    const cuda::Result result =
        context_->driver().mem_host_alloc(&memory, bytes, cuda::kMemHostAllocPortable);
    if (result == cuda::Result::kSuccess) return static_cast<std::byte*>(memory);
    return Annotate(cuda::ToStatus(context_->driver(), result, "cuMemHostAlloc"),
                    ToStd(absl::StrCat("a page-locked slab of ", bytes, " B")));
  }
  // Fails only when the device is lost, or while the process is being torn down and the driver has
  // freed everything already.
  void Free(std::byte* memory, size_t) override {
    const CurrentContext current(*context_);
    static_cast<void>(context_->driver().mem_free_host(memory));
  }
  std::string_view name() const override { return "pinned"; }

 private:
  const std::shared_ptr<const PrimaryContext> context_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<HostAllocator>> MakePinnedAllocator(int device) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::Driver> driver, cuda::ProcessDriver());
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const PrimaryContext> context,
                            PrimaryContext::Retain(std::move(driver), device));
  return std::make_shared<PinnedAllocator>(std::move(context));
}

}  // namespace millrace::pipeline
