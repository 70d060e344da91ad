#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/predicate/predicate.h"

// Evaluates one node at a time over all rows of a run: what a node costs beyond the rows (finding
// the column, choosing the loop) is paid once a run, and the loops are plain ones over arrays.
//
// A value may be missing: an element behind the end of a row's list, a division by 0. The logic has
// therefore three values; "and" is their minimum, "or" their maximum. Known values decide as far as
// they can (false and unknown is false), in any order of the operands. Only a row whose
// outcome depends on the missing value fails.

namespace millrace::pipeline {
namespace {

using Node = Predicate::Node;
using Operand = PredicateOperand;

constexpr uint8_t kFalse = 0;
constexpr uint8_t kUnknown = 1;
constexpr uint8_t kTrue = 2;

// An element as a type that the machine has.
template <typename Element>
Element Native(Element element) {
  return element;
}
float Native(Half element) { return ToFloat(element); }
float Native(BFloat element) { return ToFloat(element); }

// How many elements the row's value has along its first extent; -1: there is no value.
int64_t ElementsOf(const ConstTensorView& value) {
  if (value.data == nullptr) return -1;
  return value.shape.rank() == 0 ? 1 : value.shape[0];
}

// True if the operand can be read from `value`.
bool IsReadable(const Operand& operand, const ConstTensorView& value) {
  const int64_t elements = ElementsOf(value);
  if (elements < 0) return false;
  if (operand.kind == Operand::Kind::kLength) return value.shape.rank() > 0;
  if (operand.dtype == DType::kBytes) return true;
  if (value.shape.rank() > 1) return false;
  return operand.kind == Operand::Kind::kElement ? operand.int_value < elements : elements == 1;
}

// Floor division and its remainder, as in Python; nullopt if there is no result in the type.
std::optional<int64_t> FloorDivide(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
std::optional<int64_t> Modulo(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;  // the machine's division may overflow
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
std::optional<double> Modulo(double a, double b) {
  if (b == 0) return std::nullopt;
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
std::optional<double> FloorDivide(double a, double b) {
  if (b == 0) return std::nullopt;
  // (a - remainder) / b is near a whole number, to which it is rounded.
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}
std::optional<int64_t> Absolute(int64_t a) {
  if (a == std::numeric_limits<int64_t>::min()) return std::nullopt;
  return a < 0 ? -a : a;
}
std::optional<double> Absolute(double a) { return std::fabs(a); }

// The function of two numbers; it is NaN if one of them is.
template <typename T>
std::optional<T> Compute(Operand::Function function, T a, T b) {
  switch (function) {
    case Operand::Function::kModulo:
      return Modulo(a, b);
    case Operand::Function::kFloorDivide:
      return FloorDivide(a, b);
    case Operand::Function::kMin:
      return a != a || a < b ? a : b;
    case Operand::Function::kMax:
      return a != a || a > b ? a : b;
    case Operand::Function::kAbs:
      break;
  }
  return Absolute(a);
}

class Evaluation {
 public:
  Evaluation(Run& run, size_t num_rows) : run_(run), num_rows_(num_rows) {}

  // Sets kTrue, kFalse or kUnknown for each row; rows that are not ok get any.
  void Evaluate(const Node& node, uint8_t* mask, size_t depth) {
    switch (node.kind) {
      case Node::Kind::kCompare:
        return Compare(node, mask);
      case Node::Kind::kIn:
        return IsIn(node, mask);
      case Node::Kind::kNot:
        Evaluate(node.children[0], mask, depth);
        for (size_t i = 0; i < num_rows_; ++i) mask[i] = static_cast<uint8_t>(kTrue - mask[i]);
        return;
      default:
        return Join(node, mask, depth);
    }
  }

  // True if the call, whose arguments are readable, has a value for the row.
  bool HasValue(const Operand& call, int64_t row) {
    uint8_t* const mask = NewArray<uint8_t>();
    std::fill_n(mask, num_rows_, kFalse);
    if (call.type == PredicateType::kInt) {
      LoadNumbers(call, NewArray<int64_t>(), mask);
    } else {
      LoadNumbers(call, NewArray<double>(), mask);
    }
    return mask[row] != kUnknown;
  }

 private:
  template <typename T>
  T* NewArray() {
    return reinterpret_cast<T*>(run_.arena().Allocate(num_rows_ * sizeof(T)));
  }
  // The arrays of one comparison at a time: left, right; and masks, one for each level of the tree.
  template <typename T>
  T* ArrayOf(int side) {
    static_assert(sizeof(T) <= sizeof(std::string_view));
    void*& array = values_[side];
    if (array == nullptr) array = NewArray<std::string_view>();
    return static_cast<T*>(array);
  }
  uint8_t* MaskOf(size_t depth) {
    while (masks_.size() <= depth) masks_.push_back(NewArray<uint8_t>());
    return masks_[depth];
  }

  void Join(const Node& node, uint8_t* mask, size_t depth) {
    const bool is_or = node.kind == Node::Kind::kOr;
    Evaluate(node.children[0], mask, depth + 1);
    uint8_t* const other = MaskOf(depth);
    for (size_t child = 1; child < node.children.size(); ++child) {
      Evaluate(node.children[child], other, depth + 1);
      if (is_or) {
        for (size_t i = 0; i < num_rows_; ++i) mask[i] = std::max(mask[i], other[i]);
      } else {
        for (size_t i = 0; i < num_rows_; ++i) mask[i] = std::min(mask[i], other[i]);
      }
    }
  }

  // Calls value(row, view) for rows where the operand is readable; others get a T() and kUnknown in
  // `mask`.
  template <typename T, typename F>
  void ForReadable(const Operand& operand, T* out, uint8_t* mask, F value) {
    const Column* column = run_.Find(operand.text);
    if (column == nullptr || column->dtype() != operand.dtype) {
      std::fill_n(mask, num_rows_, kUnknown);
      std::fill_n(out, num_rows_, T());
      return;
    }
    for (size_t i = 0; i < num_rows_; ++i) {
      const auto row = static_cast<int64_t>(i);
      const ConstTensorView view = column->at(row);
      if (IsReadable(operand, view) && run_.ok(row)) {
        out[i] = value(view);
      } else {
        out[i] = T();
        mask[i] = kUnknown;
      }
    }
  }

  template <typename Element, typename T>
  void LoadElements(const Operand& operand, T* out, uint8_t* mask) {
    const size_t offset = operand.kind == Operand::Kind::kElement
                              ? static_cast<size_t>(operand.int_value) * sizeof(Element)
                              : 0;
    if (LoadDense<Element>(operand, offset, out)) return;
    ForReadable(operand, out, mask, [offset](const ConstTensorView& view) {
      Element element;
      std::memcpy(&element, static_cast<const char*>(view.data) + offset, sizeof(Element));
      return static_cast<T>(Native(element));
    });
  }

  // False unless every row is readable and lies where a column without gaps has it.
  template <typename Element, typename T>
  bool LoadDense(const Operand& operand, size_t offset, T* out) {
    const Column* const column = run_.Find(operand.text);
    const bool dense = num_rows_ > 0 && column != nullptr && column->dtype() == operand.dtype &&
                       column->is_dense() && run_.all_ok();
    if (!dense || !IsReadable(operand, column->at(0))) return false;
    const std::byte* from = column->first() + offset;
    for (size_t i = 0; i < num_rows_; ++i, from += column->stride_bytes()) {
      Element element;
      std::memcpy(&element, from, sizeof(Element));
      out[i] = static_cast<T>(Native(element));
    }
    return true;
  }

  // T is int64_t or double.
  template <typename T>
  void LoadNumbers(const Operand& operand, T* out, uint8_t* mask) {
    if (operand.kind == Operand::Kind::kCall) return LoadCall(operand, out, mask);
    if (!operand.is_field()) {
      std::fill_n(out, num_rows_,
                  std::is_same_v<T, double> ? static_cast<T>(operand.float_value)
                                            : static_cast<T>(operand.int_value));
      return;
    }
    if (operand.kind == Operand::Kind::kLength) {
      ForReadable(operand, out, mask,
                  [](const ConstTensorView& view) { return static_cast<T>(view.shape[0]); });
      return;
    }
    switch (operand.dtype) {
      case DType::kU8:
        return LoadElements<uint8_t>(operand, out, mask);
      case DType::kI32:
        return LoadElements<int32_t>(operand, out, mask);
      case DType::kI64:
        return LoadElements<int64_t>(operand, out, mask);
      default:
        break;
    }
    if constexpr (std::is_same_v<T, double>) LoadFloats(operand, out, mask);
  }

  // A call of whole numbers is computed in them, also where a floating value is wanted.
  void LoadCall(const Operand& call, double* out, uint8_t* mask) {
    if (call.type == PredicateType::kFloat) return ComputeCall(call, out, mask);
    int64_t* const whole = NewArray<int64_t>();
    ComputeCall(call, whole, mask);
    std::copy_n(whole, num_rows_, out);
  }
  void LoadCall(const Operand& call, int64_t* out, uint8_t* mask) { ComputeCall(call, out, mask); }

  template <typename T>
  void ComputeCall(const Operand& call, T* out, uint8_t* mask) {
    LoadNumbers(call.arguments[0], out, mask);
    if (call.arguments.size() == 1) return ApplyFunction(call.function, out, out, mask);
    T* const other = NewArray<T>();
    for (size_t i = 1; i < call.arguments.size(); ++i) {
      LoadNumbers(call.arguments[i], other, mask);
      ApplyFunction(call.function, out, other, mask);
    }
  }

  template <typename T>
  void ApplyFunction(Operand::Function function, T* values, const T* others, uint8_t* mask) {
    for (size_t i = 0; i < num_rows_; ++i) {
      const std::optional<T> value = Compute(function, values[i], others[i]);
      if (!value.has_value()) mask[i] = kUnknown;
      values[i] = value.value_or(T());
    }
  }

  void LoadFloats(const Operand& operand, double* out, uint8_t* mask) {
    switch (operand.dtype) {
      case DType::kF16:
        return LoadElements<Half>(operand, out, mask);
      case DType::kBF16:
        return LoadElements<BFloat>(operand, out, mask);
      case DType::kF32:
        return LoadElements<float>(operand, out, mask);
      default:
        return LoadElements<double>(operand, out, mask);
    }
  }

  void LoadStrings(const Operand& operand, std::string_view* out, uint8_t* mask) {
    if (!operand.is_field()) return static_cast<void>(std::fill_n(out, num_rows_, operand.text));
    ForReadable(operand, out, mask, [](const ConstTensorView& view) {
      return std::string_view(static_cast<const char*>(view.data),
                              static_cast<size_t>(view.shape[0]));
    });
  }

  void Load(const Operand& operand, int64_t* out, uint8_t* mask) {
    LoadNumbers(operand, out, mask);
  }
  void Load(const Operand& operand, double* out, uint8_t* mask) { LoadNumbers(operand, out, mask); }
  void Load(const Operand& operand, std::string_view* out, uint8_t* mask) {
    LoadStrings(operand, out, mask);
  }

  template <typename T, typename F>
  void Decide(const T* left, const T* right, uint8_t* mask, F holds) {
    for (size_t i = 0; i < num_rows_; ++i) {
      const uint8_t outcome = holds(left[i], right[i]) ? kTrue : kFalse;
      mask[i] = mask[i] == kUnknown ? kUnknown : outcome;
    }
  }

  template <typename T>
  void CompareAs(const Node& node, uint8_t* mask) {
    T* const left = ArrayOf<T>(0);
    T* const right = ArrayOf<T>(1);
    std::fill_n(mask, num_rows_, kFalse);
    Load(node.left, left, mask);
    Load(node.right, right, mask);
    switch (node.compare) {
      case Node::Compare::kEqual:
        return Decide(left, right, mask, std::equal_to<T>());
      case Node::Compare::kNotEqual:
        return Decide(left, right, mask, std::not_equal_to<T>());
      case Node::Compare::kLess:
        return Decide(left, right, mask, std::less<T>());
      case Node::Compare::kLessEqual:
        return Decide(left, right, mask, std::less_equal<T>());
      case Node::Compare::kGreater:
        return Decide(left, right, mask, std::greater<T>());
      case Node::Compare::kGreaterEqual:
        return Decide(left, right, mask, std::greater_equal<T>());
      case Node::Compare::kStartsWith:
        break;
    }
    if constexpr (std::is_same_v<T, std::string_view>) {
      Decide(left, right, mask, [](std::string_view text, std::string_view beginning) {
        return text.starts_with(beginning);
      });
    }
  }

  void Compare(const Node& node, uint8_t* mask) {
    switch (node.type) {
      case PredicateType::kInt:
        return CompareAs<int64_t>(node, mask);
      case PredicateType::kFloat:
        return CompareAs<double>(node, mask);
      case PredicateType::kBytes:
        return CompareAs<std::string_view>(node, mask);
    }
  }

  // NaN is in no list: the found element must be equal, not merely neither less nor greater.
  template <typename List, typename T>
  static bool Contains(const List& sorted, const T& value) {
    const auto it = std::lower_bound(sorted.begin(), sorted.end(), value);
    return it != sorted.end() && *it == value;
  }

  template <typename T, typename F>
  void IsInAs(const Node& node, uint8_t* mask, F contains) {
    T* const values = ArrayOf<T>(0);
    std::fill_n(mask, num_rows_, kFalse);
    Load(node.left, values, mask);
    Decide(values, values, mask, [&](const T& value, const T&) { return contains(value); });
  }

  void IsIn(const Node& node, uint8_t* mask) {
    switch (node.type) {
      case PredicateType::kInt:
        return IsInAs<int64_t>(node, mask, [&](int64_t value) {
          return Contains(node.ints, value) || Contains(node.floats, static_cast<double>(value));
        });
      case PredicateType::kFloat:
        return IsInAs<double>(node, mask,
                              [&](double value) { return Contains(node.floats, value); });
      case PredicateType::kBytes:
        return IsInAs<std::string_view>(
            node, mask, [&](std::string_view value) { return Contains(node.strings, value); });
    }
  }

  Run& run_;
  const size_t num_rows_;
  void* values_[2] = {nullptr, nullptr};
  std::vector<uint8_t*> masks_;
};

// The first operand, an argument before its call, that has no value for the row, or nullptr.
const Operand* FindMissing(const Operand& operand, Run& run, size_t num_rows, int64_t row) {
  for (const Operand& argument : operand.arguments) {
    if (const Operand* missing = FindMissing(argument, run, num_rows, row)) return missing;
  }
  if (operand.kind == Operand::Kind::kCall) {
    return Evaluation(run, num_rows).HasValue(operand, row) ? nullptr : &operand;
  }
  if (!operand.is_field()) return nullptr;
  const Column* column = run.Find(operand.text);
  const bool readable =
      column != nullptr && column->dtype() == operand.dtype && IsReadable(operand, column->at(row));
  return readable ? nullptr : &operand;
}

const Operand* FindMissing(const Node& node, Run& run, size_t num_rows, int64_t row) {
  for (const Node& child : node.children) {
    if (const Operand* operand = FindMissing(child, run, num_rows, row)) return operand;
  }
  if (!node.children.empty()) return nullptr;
  const Operand* missing = FindMissing(node.left, run, num_rows, row);
  if (missing != nullptr || node.kind != Node::Kind::kCompare) return missing;
  return FindMissing(node.right, run, num_rows, row);
}

void FailOfSample(absl::Status status, Run& run, int64_t row) {
  RecordError error;
  error.position = static_cast<int64_t>(run.position(row));
  error.reason = RecordErrorReason::kFeature;
  SetRecordError(status, error);
  run.Fail(row, std::move(status));
}

// Fails a row whose outcome depends on a missing value.
void FailMissing(const Node& root, Run& run, size_t num_rows, int64_t row) {
  const Operand* operand = FindMissing(root, run, num_rows, row);
  if (operand == nullptr) {
    run.Fail(row, absl::InternalError("a predicate without outcome"));
    return;
  }
  if (operand->kind == Operand::Kind::kCall) {
    return FailOfSample(absl::InvalidArgumentError(absl::StrCat(
                            "the predicate's ", ToText(*operand),
                            " has no value: it divides by 0, or the result is no int64")),
                        run, row);
  }
  const Column* column = run.Find(operand->text);
  if (column == nullptr || column->dtype() != operand->dtype || column->at(row).data == nullptr) {
    run.Fail(row,
             absl::InternalError(absl::StrCat("no stage stored field \"", operand->text, "\"")));
    return;
  }
  FailOfSample(absl::InvalidArgumentError(absl::StrCat("field \"", operand->text, "\" has shape ",
                                                       column->at(row).shape.ToString(),
                                                       "; the predicate reads ", ToText(*operand))),
               run, row);
}

}  // namespace

void Predicate::Evaluate(Run& run, std::span<uint8_t> keep) const {
  auto* const mask = reinterpret_cast<uint8_t*>(run.arena().Allocate(keep.size()));
  Evaluation(run, keep.size()).Evaluate(*root_, mask, 0);
  for (size_t i = 0; i < keep.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    if (!run.ok(row)) continue;
    keep[i] = mask[i] == kTrue ? 1 : 0;
    if (mask[i] == kUnknown) FailMissing(*root_, run, keep.size(), row);
  }
}

}  // namespace millrace::pipeline
