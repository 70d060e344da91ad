#include "pipeline/batch/host_allocator.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
// From here on slabs are mapped, each by itself: where they differ in size, malloc would keep what
// is free in between.
constexpr size_t kMappedBytes = size_t{512} << 10;

size_t MappedBytes(size_t bytes) {
  const size_t page = bytes >= kHugePage ? kHugePage : 4096;
  return (bytes + page - 1) / page * page;
}

// Returns nullptr when there is no memory. From 2 MiB on aligned to 2 MiB.
std::byte* Map(size_t bytes) {
  const size_t size = MappedBytes(bytes);
  const size_t surplus = bytes >= kHugePage ? kHugePage : 0;
  void* const memory =
      mmap(nullptr, size + surplus, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(memory);
  if (surplus == 0) return first;
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
  if (before > 0) munmap(first, before);
  if (before < surplus) munmap(first + before + size, surplus - before);
  // A hint that the kernel may refuse: it costs page faults, nothing else.
  madvise(first + before, bytes & ~(kHugePage - 1), MADV_HUGEPAGE);
  return first + before;
}

class PageableAllocator final : public HostAllocator {
 public:
  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    if (limit_.has_value() && bytes >= *limit_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a slab of ", bytes, " B is more than the cgroup's memory limit of ", *limit_, " B"));
    }
    auto* const memory = bytes >= kMappedBytes
                             ? Map(bytes)
                             : static_cast<std::byte*>(::operator new(
                                   bytes, std::align_val_t(kCacheLine), std::nothrow));
    if (memory != nullptr) return memory;
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a slab of ", bytes, " B"));
  }
  void Free(std::byte* memory, size_t bytes) override {
    if (bytes >= kMappedBytes) {
      munmap(memory, MappedBytes(bytes));
    } else {
      ::operator delete(memory, std::align_val_t(kCacheLine));
    }
  }
  std::string_view name() const override { return "pageable"; }

 private:
  const std::optional<uint64_t> limit_ = ReadMemoryLimit();
};

class ProgramAllocator final : public HostAllocator {
 public:
  explicit ProgramAllocator(BatchMemory memory) : memory_(std::move(memory)) {}

  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    void* const memory = memory_.alloc(bytes, kCacheLine);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the program has no memory for a slab of ", bytes, " B"));
    }
    if (reinterpret_cast<uintptr_t>(memory) % kCacheLine == 0) {
      return static_cast<std::byte*>(memory);
    }
    memory_.free(memory, bytes);
    return absl::FailedPreconditionError(absl::StrCat("the program's memory for a slab of ", bytes,
                                                      " B is not aligned to ", kCacheLine));
  }
  void Free(std::byte* memory, size_t bytes) override { memory_.free(memory, bytes); }
  std::string_view name() const override { return "program"; }

 private:
  const BatchMemory memory_;
};

}  // namespace

std::shared_ptr<HostAllocator> MakeProgramAllocator(BatchMemory memory) {
  return std::make_shared<ProgramAllocator>(std::move(memory));
}

std::shared_ptr<HostAllocator> MakePageableAllocator() {
  return std::make_shared<PageableAllocator>();
}

std::shared_ptr<HostAllocator> MakeHostAllocator(const Context& context,
                                                 std::optional<int> pinned_for) {
  if (context.batch_memory().alloc) return MakeProgramAllocator(context.batch_memory());
  if (!pinned_for.has_value()) return MakePageableAllocator();
  absl::StatusOr<std::shared_ptr<HostAllocator>> pinned = MakePinnedAllocator(*pinned_for);
  if (pinned.ok()) return *std::move(pinned);
  context.Log(LogLevel::kWarning,
              ToStd(absl::StrCat("batches lie in pageable memory: ", pinned.status().message())));
  return MakePageableAllocator();
}

}  // namespace millrace::pipeline
