#ifndef MILLRACE_PIPELINE_FOUND_TENSOR_H_
#define MILLRACE_PIPELINE_FOUND_TENSOR_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/tensor.h"

namespace millrace::pipeline {

// The dtypes that Element<T> may be of.
template <DType... kDTypes>
struct ElementOf {
  static constexpr bool Is(DType dtype) { return ((dtype == kDTypes) || ...); }
};

// A C++ type of elements: that of a dtype, or the unsigned number of as many bits, which shows the
// bits. Other types have no definition, and do not compile.
template <typename T>
struct Element;
template <>
struct Element<float> : ElementOf<DType::kF32> {
  static constexpr std::string_view kName = "float";
};
template <>
struct Element<double> : ElementOf<DType::kF64> {
  static constexpr std::string_view kName = "double";
};
template <>
struct Element<Half> : ElementOf<DType::kF16> {
  static constexpr std::string_view kName = "Half";
};
template <>
struct Element<BFloat> : ElementOf<DType::kBF16> {
  static constexpr std::string_view kName = "BFloat";
};
template <>
struct Element<int32_t> : ElementOf<DType::kI32> {
  static constexpr std::string_view kName = "int32_t";
};
template <>
struct Element<int64_t> : ElementOf<DType::kI64> {
  static constexpr std::string_view kName = "int64_t";
};
template <>
struct Element<uint8_t> : ElementOf<DType::kU8> {
  static constexpr std::string_view kName = "uint8_t";
};
template <>
struct Element<uint16_t> : ElementOf<DType::kF16, DType::kBF16> {
  static constexpr std::string_view kName = "uint16_t";
};
template <>
struct Element<uint32_t> : ElementOf<DType::kI32, DType::kF32> {
  static constexpr std::string_view kName = "uint32_t";
};
template <>
struct Element<uint64_t> : ElementOf<DType::kI64, DType::kF64> {
  static constexpr std::string_view kName = "uint64_t";
};

// OK if `view`, called `name`, may be looked at as elements of a type.
//   INVALID_ARGUMENT  it has another dtype; the text names both
absl::Status CheckElement(bool is_element, std::string_view type, std::string_view name,
                          const ConstTensorView& view);
// NOT_FOUND: none of `names` is `name`; the text lists them.
absl::Status NoTensor(std::string_view name, std::span<const std::string> names);
// Prints the status and ends the process.
[[noreturn]] void AbortOver(const absl::Status& status);

// A tensor that was looked for by its name, as View (TensorView or ConstTensorView). If there is
// none, `data` is null, and no text is made until Check or as<T>() is called. as<T>()
// never returns anything else than was asked for: a name that is missing, and a dtype that is not
// T's, end the process with a message that names them.
template <typename View>
class FoundTensor : public View {
 public:
  // `name` lives as long as the tensor.
  FoundTensor(const View& view, std::string_view name) : View(view), name_(name) {}
  // None of `names`, which live as long as the batch, is `name`.
  FoundTensor(std::string name, std::span<const std::string> names)
      : missing_(std::move(name)), names_(names) {}

  // OK if as<T>() returns the elements.
  //   NOT_FOUND         there is no tensor of that name
  //   INVALID_ARGUMENT  its elements are no T
  template <typename T>
  absl::Status Check() const {
    if (missing_.has_value()) return NoTensor(*missing_, names_);
    return CheckElement(Element<T>::Is(this->dtype), Element<T>::kName, name_, *this);
  }
  template <typename T>
  auto as() const {
    if (const absl::Status status = Check<T>(); !status.ok()) AbortOver(status);
    return View::template as<T>();
  }

 private:
  std::string_view name_;
  std::optional<std::string> missing_;  // the name that none has; nullopt: there is a tensor
  std::span<const std::string> names_;  // that there are, if it is missing
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_FOUND_TENSOR_H_
