#include "pipeline/stages/window_op.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace millrace::pipeline {
namespace {

using Rows = std::span<const uint32_t>;

// The elements of one kind, of `bytes` each. A copy whose length is known is several times faster
// than a call of memcpy.
template <size_t kBytes>
void CopyElements(const Column& column, Rows rows, size_t bytes, std::byte* to) {
  for (const uint32_t row : rows) {
    std::memcpy(to, column.at(row).data, kBytes == 0 ? bytes : kBytes);
    to += bytes;
  }
}

// Copies the elements of one window. Those that lie side by side are one piece.
void CopyWindow(const Column& column, Rows rows, size_t bytes, std::byte* to) {
  const bool consecutive = rows.back() - rows.front() == rows.size() - 1;  // they ascend
  if (consecutive && column.is_dense() && column.stride_bytes() == static_cast<int64_t>(bytes)) {
    std::memcpy(to, column.at(rows.front()).data, rows.size() * bytes);
  } else if (bytes == sizeof(uint32_t)) {
    CopyElements<sizeof(uint32_t)>(column, rows, bytes, to);
  } else if (bytes == sizeof(uint64_t)) {
    CopyElements<sizeof(uint64_t)>(column, rows, bytes, to);
  } else {
    CopyElements<0>(column, rows, bytes, to);
  }
}

bool AreGood(const Run& elements, Rows rows) {
  return elements.all_ok() ||
         std::ranges::all_of(rows, [&](uint32_t row) { return elements.ok(row); });
}

// True if no stage failed to store an element.
bool AreThere(const Column& column, Rows rows) {
  return column.is_dense() ||
         std::ranges::all_of(rows, [&](uint32_t row) { return column.at(row).data != nullptr; });
}

}  // namespace

absl::StatusOr<Schema> WindowOp::Resolve(const Schema& input) {
  fields_.clear();
  for (const Field& field : input.fields()) {
    const std::string text = Schema({field}).ToString();
    if (field.dtype == DType::kBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("field \"", field.name,
                       "\" is bytes, which a window cannot hold; decode it, parse it or leave it "
                       "out in front of the window"));
    }
    if (!field.shape.IsKnown()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "field \"", field.name, "\" differs in shape from sample to sample (", text,
          "), and the elements of a window have one shape; resize or pad it in front of the "
          "window"));
    }
    if (field.shape.rank() >= Shape::kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat(
          "field \"", field.name, "\" has too many extents for a window (", text, ")"));
    }
    fields_.push_back({field.name, field.dtype, field.shape.Prepend(size_)});
  }
  return Schema(fields_);
}

void WindowOp::GroupElements(const Run& elements, std::span<const uint32_t> at,
                             Run& windows) const {
  const auto size = static_cast<size_t>(size_);
  for (const Field& field : fields_) {
    const Column* const from = elements.Find(field.name);
    Column& to = windows.Add(field.name, field.dtype);
    std::byte* const memory = windows.AllocateAll(to, field.shape);
    const size_t row_bytes = SizeOf(field.dtype) * static_cast<size_t>(field.shape.num_elements());
    for (int64_t row = 0; row < windows.num_rows(); ++row) {
      const auto first = static_cast<size_t>(row);
      const Rows rows = at.subspan(first * size, size);
      if (!AreGood(elements, rows)) continue;
      std::byte* const place = memory + first * row_bytes;
      if (row_bytes != 0) {
        if (from == nullptr || !AreThere(*from, rows)) continue;  // Store says so
        CopyWindow(*from, rows, row_bytes / size, place);
      }
      to.Set(row, place, field.shape);
    }
  }
}

}  // namespace millrace::pipeline
