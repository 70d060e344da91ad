#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/host_allocator_internal.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t AlignmentOf(size_t bytes) { return bytes >= kHugePage ? kHugePage : kCacheLine; }

class PageableAllocator final : public HostAllocator {
 public:
  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    const size_t alignment = AlignmentOf(bytes);
    void* memory = ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for a slab of ", bytes, " B"));
    }
    // A hint that the kernel may refuse: it costs page faults, nothing else.
    if (alignment == kHugePage) madvise(memory, bytes & ~(kHugePage - 1), MADV_HUGEPAGE);
    return static_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory, size_t bytes) override {
    ::operator delete(memory, std::align_val_t(AlignmentOf(bytes)));
  }
  std::string_view name() const override { return "pageable"; }
};

}  // namespace

std::shared_ptr<HostAllocator> MakePageableAllocator() {
  return std::make_shared<PageableAllocator>();
}

std::shared_ptr<HostAllocator> MakeHostAllocator(const Context& context) {
  absl::StatusOr<std::shared_ptr<HostAllocator>> pinned = MakePinnedAllocator();
  if (pinned.ok()) return *std::move(pinned);
  if (!absl::IsUnimplemented(pinned.status())) {
    context.Log(LogLevel::kWarning,
                ToStd(absl::StrCat("batches lie in pageable memory: ", pinned.status().message())));
  }
  return MakePageableAllocator();
}

}  // namespace millrace::pipeline
