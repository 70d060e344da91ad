#include "cli/page/row_value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/half.h"
#include "base/status.h"
#include "base/utf8.h"

namespace millrace::cli {
namespace {

constexpr int64_t kMaxNumbers = 8;
constexpr size_t kMaxTextBytes = 80;

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// Copies the box [0, shape) of an array of extents `outer`.
void CopyBox(const std::byte* from, const Shape& outer, const Shape& shape, int axis, size_t size,
             std::vector<std::byte>* out) {
  if (axis == shape.rank()) {
    out->insert(out->end(), from, from + size);
    return;
  }
  size_t stride = size;
  for (int i = axis + 1; i < outer.rank(); ++i) stride *= static_cast<size_t>(outer[i]);
  const bool whole =
      std::ranges::equal(shape.extents().subspan(axis + 1), outer.extents().subspan(axis + 1));
  if (whole) {
    out->insert(out->end(), from, from + static_cast<size_t>(shape[axis]) * stride);
    return;
  }
  for (int64_t i = 0; i < shape[axis]; ++i) {
    CopyBox(from + static_cast<size_t>(i) * stride, outer, shape, axis + 1, size, out);
  }
}

// True if the bytes are text and not numbers: UTF-8 without control characters.
bool IsText(std::string_view bytes) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  return !bytes.empty() && IsUtf8(bytes) && std::ranges::none_of(bytes, is_control);
}

// The whole characters in the first `size` bytes of well-formed UTF-8.
std::string_view CutText(std::string_view text, size_t size) {
  if (size >= text.size()) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

std::string NumberText(const RowValue& value, int64_t i) {
  if (value.dtype() == DType::kI64) {
    return absl::StrCat(Load<int64_t>(value.bytes().data() + 8 * i));
  }
  return absl::StrFormat("%.6g", value.at(i));
}

std::string TypeText(const RowValue& value) {
  const std::string shape = value.shape().ToString();
  return absl::StrCat(ToAbsl(Name(value.dtype())), shape);
}

// The begin of the row along the tensor's first extent if the tensor is ragged. A field of the data
// may have the name of splits: they count as a batch's splits only if they are places inside the
// tensor.
std::optional<int64_t> FirstOfRagged(const pipeline::Batch& batch, size_t i, int64_t row,
                                     const Shape& shape) {
  const ConstTensorView splits = batch.Find(batch.names()[i] + "/row_splits");
  if (splits.data == nullptr || splits.dtype != DType::kI64 || splits.shape.rank() != 1 ||
      splits.shape[0] != batch.num_rows() + 1) {
    return std::nullopt;
  }
  const auto* const places = splits.as<int64_t>().data() + row;
  const int64_t extent = batch.tensor(i).shape[0];
  const bool inside = places[0] >= 0 && places[0] <= places[1] && places[1] <= extent;
  if (!inside || shape.rank() == 0 || places[1] - places[0] != shape[0]) return std::nullopt;
  return places[0];
}

}  // namespace

RowValue RowValue::Of(const pipeline::Batch& batch, size_t i, int64_t row) {
  const ConstTensorView tensor = batch.tensor(i);
  const Shape shape = batch.row_shape(i, row);
  const Shape outer(tensor.shape.extents().subspan(1));
  const auto* data = static_cast<const std::byte*>(tensor.data);
  const size_t size = SizeOf(tensor.dtype);
  std::vector<std::byte> bytes;
  if (const std::optional<int64_t> first = FirstOfRagged(batch, i, row, shape)) {
    const auto* begin = data + static_cast<size_t>(*first * outer.num_elements()) * size;
    bytes.assign(begin, begin + static_cast<size_t>(shape.num_elements()) * size);
  } else {
    const auto* begin = data + static_cast<size_t>(row * outer.num_elements()) * size;
    CopyBox(begin, outer, shape, 0, size, &bytes);
  }
  return {tensor.dtype, shape, std::move(bytes)};
}

double RowValue::at(int64_t i) const {
  const std::byte* const at = bytes_.data() + static_cast<size_t>(i) * SizeOf(dtype_);
  switch (dtype_) {
    case DType::kI32:
      return Load<int32_t>(at);
    case DType::kI64:
      return static_cast<double>(Load<int64_t>(at));
    case DType::kF16:
      return ToFloat(Half{Load<uint16_t>(at)});
    case DType::kBF16:
      return ToFloat(BFloat{Load<uint16_t>(at)});
    case DType::kF32:
      return Load<float>(at);
    case DType::kF64:
      return Load<double>(at);
    case DType::kU8:
    case DType::kBytes:
      break;
  }
  return std::to_integer<uint8_t>(*at);
}

std::string RowValue::ToText() const {
  const int64_t count = shape_.num_elements();
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  if (dtype_ == DType::kU8 && shape_.rank() == 1 && IsText(text)) {
    const bool cut = text.size() > kMaxTextBytes;
    return absl::StrCat("\"", ToAbsl(CutText(text, kMaxTextBytes)),
                        cut ? absl::StrCat("\"... ", text.size(), " bytes") : "\"");
  }
  if (shape_.rank() == 0) return NumberText(*this, 0);
  std::string list = "[";
  for (int64_t i = 0; i < std::min(count, kMaxNumbers); ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ", ", NumberText(*this, i));
  }
  absl::StrAppend(&list, count > kMaxNumbers ? ", ...] " : "] ", TypeText(*this));
  return list;
}

}  // namespace millrace::cli
