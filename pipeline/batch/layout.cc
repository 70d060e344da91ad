#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "base/status.h"
#include "pipeline/batch/closed_batch.h"
#include "pipeline/batch/data.h"
#include "pipeline/plan/physical.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMaxSlabBytes = size_t{1} << 46;

constexpr int64_t kMaxExtent = int64_t{1} << 46;

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

// Places one tensor after the other.
class Placer {
 public:
  explicit Placer(BatchLayout& layout) : layout_(layout) {}

  // `count` things of `each` bytes.
  size_t Place(size_t count, size_t each) {
    const size_t offset = (layout_.slab_bytes + kAlignment - 1) & ~(kAlignment - 1);
    size_t bytes = 0;
    fits_ = fits_ && CheckedProduct(count, each, bytes) && offset + bytes <= kMaxSlabBytes;
    if (fits_) layout_.slab_bytes = offset + bytes;
    return offset;
  }
  // A tensor of `count` things that are a `field` each; `shape` is the whole tensor's.
  absl::Status Add(const Field& field, size_t count, const Shape& shape) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t row_bytes, RowBytes(field));
    layout_.names.push_back(field.name);
    layout_.fields.push_back(field);
    layout_.shapes.push_back(shape);
    layout_.row_bytes.push_back(row_bytes);
    layout_.offsets.push_back(Place(count, row_bytes));
    return absl::OkStatus();
  }
  // The rows' ids and valid bytes.
  //   INVALID_ARGUMENT  the slab is too large
  absl::Status End(const Schema& schema) {
    const auto rows = static_cast<size_t>(layout_.num_rows);
    layout_.ids_offset = Place(rows, sizeof(SampleId));
    layout_.valid_offset = Place(rows, 1);
    if (fits_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", rows, " rows of ",
                                                   schema.ToString(), " has more than 2^46 bytes"));
  }

 private:
  BatchLayout& layout_;
  bool fits_ = true;  // true if the tensors so far fit kMaxSlabBytes
};

template <typename T>
std::vector<std::byte> BytesOf(T value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::vector<std::byte> FillElement(const BatchSpec& batch, const Field& field, DType dtype) {
  const auto it = std::ranges::find(batch.padding, field.name, &BatchSpec::Padding::field);
  if (it == batch.padding.end()) return std::vector<std::byte>(SizeOf(dtype));
  switch (dtype) {
    case DType::kU8:
      return BytesOf(static_cast<uint8_t>(it->int_value));
    case DType::kI32:
      return BytesOf(static_cast<int32_t>(it->int_value));
    case DType::kI64:
      return BytesOf(it->int_value);
    case DType::kF16:
      return BytesOf(ToHalf(static_cast<float>(it->float_value)).bits);
    case DType::kBF16:
      return BytesOf(ToBFloat(static_cast<float>(it->float_value)).bits);
    case DType::kF32:
      return BytesOf(static_cast<float>(it->float_value));
    case DType::kF64:
      return BytesOf(it->float_value);
    case DType::kBytes:
      break;  // stored as kU8
  }
  return std::vector<std::byte>(SizeOf(dtype));
}

// The layout of a closed batch, field by field.
class ClosedLayout {
 public:
  ClosedLayout(const PhysicalPlan& plan, const ClosedBatch& batch)
      : plan_(plan), batch_(batch), placer_(layout_) {
    layout_.num_rows = batch.num_slots;
  }

  absl::StatusOr<BatchLayout> Make() {
    for (const Field& field : plan_.batch_schema.fields()) MILLRACE_RETURN_IF_ERROR(Add(field));
    MILLRACE_RETURN_IF_ERROR(placer_.End(plan_.batch_schema));
    // Sizes in steps of an eighth at least.
    const size_t step = std::bit_floor(std::max<size_t>(layout_.slab_bytes, 512)) / 8;
    layout_.slab_bytes = (layout_.slab_bytes + step - 1) / step * step;
    return std::move(layout_);
  }

 private:
  absl::Status Add(const Field& field) {
    // Pass 1 tells the extents of fields in the order of extents_of, all in one line per row.
    const std::vector<std::string>& told = plan_.cut->extents_of;
    const auto it = std::ranges::find(told, field.name);
    if (it == told.end()) {
      Extend(RowStore::kDense);
      return placer_.Add(field, Rows(), field.shape.Prepend(layout_.num_rows));
    }
    size_t first = 0;
    for (auto before = told.begin(); before != it; ++before) first += RankOf(*before);
    std::vector<Shape> own = OwnShapes(first, RankOf(field.name));
    MILLRACE_RETURN_IF_ERROR(CheckShapes(field, own));
    const DType dtype = field.dtype == DType::kBytes ? DType::kU8 : field.dtype;
    if (plan_.batch.kind == BatchSpec::Kind::kRagged)
      return AddRagged(field, dtype, std::move(own));
    return AddPadded(field, dtype, std::move(own));
  }

  size_t Rows() const { return static_cast<size_t>(layout_.num_rows); }
  size_t RankOf(const std::string& name) const {
    const Field& field = *plan_.batch_schema.Find(name);
    return static_cast<size_t>(field.shape.rank());
  }
  void Extend(RowStore store) {
    layout_.stores.push_back(store);
    layout_.own.emplace_back();
    layout_.splits.emplace_back();
    layout_.fill.emplace_back();
  }
  // The shape of each slot's value; those of rows without a sample, and of bad ones, are empty.
  std::vector<Shape> OwnShapes(size_t first, size_t rank) const {
    std::vector<Shape> own(Rows(), Shape(std::vector<int64_t>(rank, 0)));
    const size_t per_row = batch_.rows.empty() ? 0 : batch_.extents.size() / batch_.rows.size();
    for (size_t i = 0; i < batch_.rows.size(); ++i) {
      if (batch_.rows[i].error >= 0) continue;
      own[static_cast<size_t>(batch_.rows[i].slot)] =
          Shape(std::span(batch_.extents).subspan(i * per_row + first, rank));
    }
    return own;
  }

  // Values that are copied later are measured by the extents in `own`.
  absl::Status CheckShapes(const Field& field, const std::vector<Shape>& own) const {
    for (const ClosedBatch::Row& row : batch_.rows) {
      const Shape& shape = own[static_cast<size_t>(row.slot)];
      const bool negative = std::ranges::any_of(shape.extents(), [](int64_t e) { return e < 0; });
      if (row.error < 0 && (negative || !field.shape.Admits(shape))) {
        return FieldError(field, ToStd(absl::StrCat("a sample has ", shape.ToString())));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddPadded(const Field& field, DType dtype, std::vector<Shape> own) {
    std::vector<int64_t> largest(own.empty() ? 0 : static_cast<size_t>(own[0].rank()), 0);
    for (size_t i = 0; i < largest.size(); ++i) {
      const int64_t known =
          field.dtype == DType::kBytes ? Shape::kUnknown : field.shape[static_cast<int>(i)];
      for (const Shape& shape : own) {
        largest[i] = std::max(largest[i], shape[static_cast<int>(i)]);
      }
      if (known != Shape::kUnknown) largest[i] = known;
      if (known == Shape::kUnknown && i == 0 && batch_.pad_to >= 0) largest[i] = batch_.pad_to;
    }
    Extend(RowStore::kPadded);
    layout_.own.back() = std::move(own);
    layout_.fill.back() = FillElement(plan_.batch, field, dtype);
    const Field padded{field.name, dtype, Shape(largest)};
    return placer_.Add(padded, Rows(), padded.shape.Prepend(layout_.num_rows));
  }

  absl::Status AddRagged(const Field& field, DType dtype, std::vector<Shape> own) {
    std::vector<int64_t> splits = {0};
    for (const Shape& shape : own) {
      if (shape[0] > kMaxExtent - splits.back())
        return FieldError(field, "more than 2^46 elements");
      splits.push_back(splits.back() + shape[0]);
    }
    const auto inner = field.dtype == DType::kBytes ? std::span<const int64_t>()
                                                    : field.shape.extents().subspan(1);
    const Field element{field.name, dtype, Shape(inner)};
    const int64_t count = splits.back();
    Extend(RowStore::kRagged);
    layout_.own.back() = std::move(own);
    layout_.splits.back() = std::move(splits);
    MILLRACE_RETURN_IF_ERROR(
        placer_.Add(element, static_cast<size_t>(count), element.shape.Prepend(count)));
    Extend(RowStore::kSplits);
    return placer_.Add({absl::StrCat(field.name, "/row_splits"), DType::kI64, {}}, Rows() + 1,
                       {layout_.num_rows + 1});
  }

  const PhysicalPlan& plan_;
  const ClosedBatch& batch_;
  BatchLayout layout_;
  Placer placer_;
};

}  // namespace

absl::StatusOr<BatchLayout> MakeBatchLayout(const Schema& schema, uint64_t num_rows) {
  BatchLayout layout;
  layout.num_rows = static_cast<int64_t>(num_rows);
  Placer placer(layout);
  for (const Field& field : schema.fields()) {
    if (field.shape.rank() == Shape::kMaxRank) {
      return FieldError(field, "a batch adds an extent, and tensors have at most 6");
    }
    MILLRACE_RETURN_IF_ERROR(placer.Add(field, num_rows, field.shape.Prepend(layout.num_rows)));
  }
  MILLRACE_RETURN_IF_ERROR(placer.End(schema));
  return layout;
}

absl::StatusOr<BatchLayout> MakeClosedLayout(const PhysicalPlan& plan, const ClosedBatch& batch) {
  return ClosedLayout(plan, batch).Make();
}

int DefaultPrefetch(const BatchLayout& layout) {
  constexpr size_t kRingBytes = 1 << 20;
  if (!layout.stores.empty()) return 2;  // not known before each is made
  return static_cast<int>(
      std::clamp<size_t>(kRingBytes / std::max<size_t>(layout.slab_bytes, 1), 2, 32));
}

}  // namespace millrace::pipeline
