#include "pipeline/batch/row_store.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

absl::Status ShapeError(const Field& field, const ConstTensorView& value, const Shape& expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      "field \"", field.name, "\" is ", ToAbsl(Name(value.dtype)), value.shape.ToString(),
      ", the batch wants ", ToAbsl(Name(field.dtype)), expected.ToString()));
}

// A place filled with one element again and again.
void Fill(std::byte* place, size_t bytes, const std::vector<std::byte>& element) {
  const bool zero = std::ranges::all_of(element, [](std::byte b) { return b == std::byte{0}; });
  if (zero) {
    std::memset(place, 0, bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += element.size()) {
    std::memcpy(place + at, element.data(), element.size());
  }
}

bool Fits(const Shape& own, const Shape& place) {
  for (int i = 0; i < own.rank(); ++i) {
    if (own[i] > place[i]) return false;
  }
  return own.rank() == place.rank();
}

absl::Status StoreDenseRow(BatchData& data, size_t tensor, int64_t slot,
                           const ConstTensorView& value) {
  const Field& field = data.layout->fields[tensor];
  if (value.dtype != field.dtype || value.shape != field.shape) {
    return ShapeError(field, value, field.shape);
  }
  const size_t bytes = data.layout->row_bytes[tensor];
  std::byte* const place = data.tensor(tensor) + static_cast<size_t>(slot) * bytes;
  if (value.data != place && bytes != 0) std::memcpy(place, value.data, bytes);
  return absl::OkStatus();
}

}  // namespace

void VisitPadded(const Shape& own, const Field& padded,
                 const std::function<void(size_t from, size_t to, size_t bytes)>& visit) {
  if (own.num_elements() == 0) return;
  // The innermost extents that are equal are one stretch; the outer ones are counted through.
  size_t stretch = SizeOf(padded.dtype);
  int inner = own.rank();
  while (inner > 0 && own[inner - 1] == padded.shape[inner - 1]) {
    stretch *= static_cast<size_t>(own[--inner]);
  }
  size_t place = stretch;  // bytes from one stretch's place to the next
  if (inner > 0) {
    --inner;
    place *= static_cast<size_t>(padded.shape[inner]);
    stretch *= static_cast<size_t>(own[inner]);
  }
  std::array<int64_t, Shape::kMaxRank> index{};
  for (size_t from = 0;; from += stretch) {
    size_t line = 0;  // the number of the place
    for (int i = 0; i < inner; ++i) {
      line = line * static_cast<size_t>(padded.shape[i]) + static_cast<size_t>(index[i]);
    }
    visit(from, line * place, stretch);
    int i = inner - 1;
    while (i >= 0 && ++index[i] == own[i]) index[i--] = 0;
    if (i < 0) return;
  }
}

absl::Status StoreRow(BatchData& data, size_t tensor, int64_t slot, const ConstTensorView& value) {
  const BatchLayout& layout = *data.layout;
  const Field& field = layout.fields[tensor];
  if (layout.store(tensor) == RowStore::kDense) return StoreDenseRow(data, tensor, slot, value);
  const Shape& own = layout.own[tensor][static_cast<size_t>(slot)];
  const DType dtype = value.dtype == DType::kBytes ? DType::kU8 : value.dtype;
  if (dtype != field.dtype) return ShapeError(field, value, own);
  if (value.shape != own) {
    return absl::InternalError(absl::StrCat("field \"", field.name, "\" has the shape ",
                                            value.shape.ToString(), ", and had ", own.ToString(),
                                            " when its record was looked at first"));
  }
  const auto* const from = static_cast<const std::byte*>(value.data);
  if (layout.store(tensor) == RowStore::kRagged) {
    const size_t first = static_cast<size_t>(layout.splits[tensor][static_cast<size_t>(slot)]);
    const size_t bytes = static_cast<size_t>(own[0]) * layout.row_bytes[tensor];
    if (bytes != 0)
      std::memcpy(data.tensor(tensor) + first * layout.row_bytes[tensor], from, bytes);
    return absl::OkStatus();
  }
  if (!Fits(own, field.shape)) return ShapeError(field, value, field.shape);
  std::byte* const place =
      data.tensor(tensor) + static_cast<size_t>(slot) * layout.row_bytes[tensor];
  if (from == place) return absl::OkStatus();  // it filled the place itself
  if (own != field.shape) Fill(place, layout.row_bytes[tensor], layout.fill[tensor]);
  VisitPadded(own, field, [&](size_t at, size_t to, size_t bytes) {
    std::memcpy(place + to, from + at, bytes);
  });
  return absl::OkStatus();
}

void ClearPadding(BatchData& data) {
  const BatchLayout& layout = *data.layout;
  const uint8_t* const valid = data.valid();
  const uint8_t* const valid_end = valid + layout.num_rows;
  const auto find = [&](const uint8_t* at, int value) {
    const void* const found = std::memchr(at, value, static_cast<size_t>(valid_end - at));
    return found == nullptr ? valid_end : static_cast<const uint8_t*>(found);
  };
  for (const uint8_t* at = valid; (at = find(at, 0)) != valid_end;) {
    const auto row = static_cast<size_t>(at - valid);
    at = find(at, 1);
    const auto rows = static_cast<size_t>(at - valid) - row;
    std::fill_n(data.ids() + row, rows, SampleId{});
    for (size_t i = 0; i < layout.fields.size(); ++i) {
      const bool has_place =
          layout.store(i) == RowStore::kDense || layout.store(i) == RowStore::kPadded;
      const size_t bytes = layout.row_bytes[i];
      if (has_place) std::memset(data.tensor(i) + row * bytes, 0, rows * bytes);
    }
  }
  for (size_t i = 0; i < layout.fields.size(); ++i) {
    if (layout.store(i) != RowStore::kSplits) continue;
    const std::vector<int64_t>& splits = layout.splits[i - 1];
    std::memcpy(data.tensor(i), splits.data(), splits.size() * sizeof(int64_t));
  }
}

}  // namespace millrace::pipeline
