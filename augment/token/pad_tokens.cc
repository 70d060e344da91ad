#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/columns.h"
#include "augment/image/errors.h"
#include "augment/token_ops.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

using Truncate = PadTokensOptions::Truncate;

constexpr int64_t kMaxLength = 1 << 24;

bool IsToken(DType dtype) { return IsNumber(dtype) && dtype != DType::kU8; }

class PadTokens final : public Op {
 public:
  explicit PadTokens(PadTokensOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(Field field, FindField(input, options_.field, "pad_tokens"));
    if (!IsToken(field.dtype) || field.shape.rank() != 1) {
      return FieldError(field, "pad_tokens", "int32, int64, float32 or float64 [tokens]");
    }
    const bool has_value = WithNumber(
        field.dtype, [this](auto number) { return HasNumber<decltype(number)>(options_.value); });
    if (!has_value) {
      return FieldError(field, "pad_tokens",
                        absl::StrCat("a dtype that has the number ", options_.value));
    }
    field.shape = Shape{options_.length};
    Schema output = input;
    output.Set(std::move(field));
    if (!options_.mask.empty()) {
      const Field mask{options_.mask, DType::kI64, Shape{options_.length}};
      MILLRACE_RETURN_IF_ERROR(AddField(mask, "pad_tokens", &output));
    }
    if (!options_.lengths.empty()) {
      const Field lengths{options_.lengths, DType::kI64, Shape()};
      MILLRACE_RETURN_IF_ERROR(AddField(lengths, "pad_tokens", &output));
    }
    return output;
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    WithNumber(in.dtype(), [&](auto number) { Fill<decltype(number)>(in, run); });
    if (!options_.mask.empty()) AddMask(in, run);
    if (!options_.lengths.empty()) AddLengths(in, run);
  }

 private:
  // Tokens that stay of a row.
  int64_t Kept(const Column& in, int64_t row) const {
    return std::min(in.at(row).shape[0], options_.length);
  }
  // Where they begin in the output.
  int64_t Begin(int64_t kept) const { return options_.left ? options_.length - kept : 0; }

  template <typename T>
  void Fill(const Column& in, Run& run) const {
    Column& out = run.Add(options_.field, in.dtype());
    const T value = static_cast<T>(options_.value);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const auto tokens = in.at(row).as<T>();
      const int64_t count = std::ssize(tokens);
      if (count > options_.length && options_.truncate == Truncate::kNever) {
        run.Fail(row, RowError(RecordErrorReason::kValue,
                               absl::StrCat(options_.field, ": ", count, " tokens; at most ",
                                            options_.length, " fit, and truncate is \"none\"")));
        continue;
      }
      const int64_t kept = Kept(in, row);
      const int64_t begin = Begin(kept);
      const int64_t skipped = options_.truncate == Truncate::kLeft ? count - kept : 0;
      auto* const to = static_cast<T*>(run.Allocate(out, row, Shape{options_.length}));
      std::fill_n(to, begin, value);
      std::copy_n(tokens.begin() + skipped, kept, to + begin);
      std::fill(to + begin + kept, to + options_.length, value);
    }
  }

  void AddMask(const Column& in, Run& run) const {
    Column& mask = run.Add(options_.mask, DType::kI64);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      auto* const to = static_cast<int64_t*>(run.Allocate(mask, row, Shape{options_.length}));
      std::fill_n(to, options_.length, 0);
      const int64_t kept = Kept(in, row);
      std::fill_n(to + Begin(kept), kept, 1);
    }
  }

  void AddLengths(const Column& in, Run& run) const {
    Column& lengths = run.Add(options_.lengths, DType::kI64);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (run.ok(row)) {
        *static_cast<int64_t*>(run.Allocate(lengths, row, Shape())) = Kept(in, row);
      }
    }
  }

  const PadTokensOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakePadTokens(PadTokensOptions options) {
  if (options.length < 1 || options.length > kMaxLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("pad_tokens: length is ", options.length, "; expected 1 to ", kMaxLength));
  }
  if (!std::isfinite(options.value)) {
    return absl::InvalidArgumentError("pad_tokens: value must be finite");
  }
  const bool named = !options.mask.empty() || !options.lengths.empty();
  if (named && (options.mask == options.field || options.lengths == options.field ||
                options.mask == options.lengths)) {
    return absl::InvalidArgumentError(
        "pad_tokens: field, mask and lengths must be names that differ");
  }
  return std::make_unique<PadTokens>(std::move(options));
}

}  // namespace millrace::augment
