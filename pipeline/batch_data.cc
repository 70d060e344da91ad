#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/batch_internal.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMaxSlabBytes = size_t{1} << 46;

absl::Status FieldError(const Field& field, std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("field \"", field.name, "\" (",
                                                 ToAbsl(Name(field.dtype)), field.shape.ToString(),
                                                 "): ", ToAbsl(text)));
}

// The bytes of `count` times `each`, at most kMaxSlabBytes; false when there are more.
bool CheckedProduct(size_t count, size_t each, size_t& bytes) {
  return !__builtin_mul_overflow(count, each, &bytes) && bytes <= kMaxSlabBytes;
}

absl::StatusOr<size_t> RowBytes(const Field& field) {
  if (field.dtype == DType::kBytes) return FieldError(field, "a byte string cannot be batched");
  if (!field.shape.IsKnown()) {
    return FieldError(field, "its shape differs from sample to sample, so it cannot be batched");
  }
  if (field.shape.rank() == Shape::kMaxRank) {
    return FieldError(field, "a batch adds an extent, and tensors have at most 6");
  }
  size_t bytes = SizeOf(field.dtype);
  for (const int64_t extent : field.shape.extents()) {
    if (extent < 0) return FieldError(field, "a negative extent");
    if (!CheckedProduct(bytes, static_cast<size_t>(extent), bytes)) {
      return FieldError(field, "more than 2^46 bytes");
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<BatchLayout> MakeBatchLayout(const Schema& schema, uint64_t num_rows) {
  BatchLayout layout;
  layout.num_rows = static_cast<int64_t>(num_rows);
  bool fits = true;
  const auto place = [&](size_t row_bytes) {
    const size_t offset = (layout.slab_bytes + kAlignment - 1) & ~(kAlignment - 1);
    size_t bytes = 0;
    fits = fits && CheckedProduct(num_rows, row_bytes, bytes) && offset + bytes <= kMaxSlabBytes;
    if (fits) layout.slab_bytes = offset + bytes;
    return offset;
  };
  for (const Field& field : schema.fields()) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t row_bytes, RowBytes(field));
    layout.names.push_back(field.name);
    layout.fields.push_back(field);
    layout.row_bytes.push_back(row_bytes);
    layout.offsets.push_back(place(row_bytes));
  }
  layout.ids_offset = place(sizeof(SampleId));
  layout.valid_offset = place(1);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", num_rows, " rows of ",
                                                   schema.ToString(), " has more than 2^46 bytes"));
  }
  return layout;
}

SlabPool::SlabPool(std::shared_ptr<HostAllocator> allocator, size_t slab_bytes, size_t max_idle)
    : allocator_(std::move(allocator)), slab_bytes_(slab_bytes), max_idle_(max_idle) {}

SlabPool::~SlabPool() { Close(); }

absl::StatusOr<std::byte*> SlabPool::Take() {
  {
    MutexLock lock(mu_);
    if (!idle_.empty()) {
      std::byte* slab = idle_.back();
      idle_.pop_back();
      return slab;
    }
  }
  return allocator_->Allocate(slab_bytes_);
}

void SlabPool::GiveBack(std::byte* slab) {
  {
    MutexLock lock(mu_);
    if (idle_.size() < max_idle_) {
      idle_.push_back(slab);
      return;
    }
  }
  allocator_->Free(slab, slab_bytes_);
}

void SlabPool::Close() {
  std::vector<std::byte*> idle;
  {
    MutexLock lock(mu_);
    max_idle_ = 0;
    idle.swap(idle_);
  }
  for (std::byte* slab : idle) allocator_->Free(slab, slab_bytes_);
}

BatchData::BatchData(std::shared_ptr<const BatchLayout> layout_in,
                     std::shared_ptr<SlabPool> pool_in, std::shared_ptr<MemoryBudget> budget_in)
    : layout(std::move(layout_in)), pool(std::move(pool_in)), budget(std::move(budget_in)) {}

BatchData::~BatchData() {
  const auto bytes = static_cast<int64_t>(layout->slab_bytes);
  if (slab != nullptr) pool->GiveBack(slab);
  if (held) budget->Hold(-bytes);
  budget->Release(bytes);
}

}  // namespace millrace::pipeline
