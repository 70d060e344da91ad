#include "cli/dump/npy.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/half.h"
#include "base/status.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kAlignment = 64;  // of the array's bytes in the file

std::string_view DtypeText(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return "'<i4'";
    case DType::kI64:
      return "'<i8'";
    case DType::kF16:
      return "'<f2'";
    case DType::kBF16:  // as float32
    case DType::kF32:
      return "'<f4'";
    case DType::kF64:
      return "'<f8'";
    case DType::kU8:
    case DType::kBytes:
      break;
  }
  return "'|u1'";
}

std::vector<float> Widened(const ConstTensorView& tensor) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(tensor.shape.num_elements()));
  for (const BFloat value : tensor.as<BFloat>()) values.push_back(ToFloat(value));
  return values;
}

}  // namespace

std::string NpyHead(std::string_view dtype, std::span<const int64_t> extents) {
  std::string text =
      absl::StrCat("{'descr': ", ToAbsl(dtype), ", 'fortran_order': False, ", "'shape': (");
  for (const int64_t extent : extents) absl::StrAppend(&text, extent, ",");
  text += "), }";
  const size_t size = kMagic.size() + 2 + text.size() + 1;  // with the text's length and line end
  text.append((kAlignment - size % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string head(kMagic);
  head += static_cast<char>(text.size() & 0xFF);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

absl::Status WriteNpy(const std::string& path, std::string_view dtype,
                      std::span<const int64_t> extents, std::span<const std::byte> data) {
  MILLRACE_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  const std::string head = NpyHead(dtype, extents);
  MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(head))));
  MILLRACE_RETURN_IF_ERROR(file->Append(data));
  return file->Commit(/*sync=*/false);
}

absl::Status WriteNpy(const std::string& path, const ConstTensorView& tensor) {
  const std::string_view dtype = DtypeText(tensor.dtype);
  if (tensor.dtype == DType::kBF16) {
    const std::vector<float> values = Widened(tensor);
    return WriteNpy(path, dtype, tensor.shape.extents(), std::as_bytes(std::span(values)));
  }
  const auto* const data = static_cast<const std::byte*>(tensor.data);
  return WriteNpy(path, dtype, tensor.shape.extents(), {data, tensor.size_bytes()});
}

}  // namespace millrace::cli
