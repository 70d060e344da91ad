#include "augment/color/normalize.h"

#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/image/errors.h"
#include "augment/rows/kernels.h"
#include "base/status.h"

namespace millrace::augment {

// Blocks of so many pixels are whole vectors for any number of channels.
constexpr int kFactorPixels = 16;

NormalizeFactors::NormalizeFactors(const NormalizeOptions& options) {
  for (int pixel = 0; pixel < kFactorPixels; ++pixel) {
    for (size_t c = 0; c < options.mean.size(); ++c) {
      scale.push_back(1.0f / options.stddev[c]);
      offset.push_back(options.mean[c] * scale.back());
    }
  }
}

namespace {

class Normalize final : public Op {
 public:
  explicit Normalize(NormalizeOptions options) : options_(std::move(options)), factors_(options_) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    constexpr DType kDTypes[] = {DType::kU8, DType::kF32};
    MILLRACE_ASSIGN_OR_RETURN(Field field, FindImage(input, options_.field, "normalize", kDTypes));
    const auto channels = static_cast<int64_t>(options_.mean.size());
    if (field.shape[2] != channels) {
      return FieldError(field, "normalize",
                        absl::StrCat(channels, " channels, one per mean and stddev"));
    }
    field.dtype = DType::kF32;
    Schema output = input;
    output.Set(std::move(field));
    return output;
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, DType::kF32);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView image = in.at(row);
      auto* to = static_cast<float*>(run.Allocate(out, row, image.shape));
      if (in.dtype() == DType::kU8) {
        Scale(image.as<uint8_t>(), to);
      } else {
        Scale(image.as<float>(), to);
      }
    }
  }

 private:
  template <typename T>
  void Scale(std::span<const T> in, float* out) const {
    ScaleRow(in.data(), static_cast<int64_t>(in.size()), factors_.scale.data(),
             factors_.offset.data(), static_cast<int64_t>(factors_.scale.size()), out);
  }

  const NormalizeOptions options_;
  const NormalizeFactors factors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeNormalize(NormalizeOptions options) {
  if (options.mean.empty() || options.mean.size() != options.stddev.size()) {
    return absl::InvalidArgumentError(absl::StrCat("normalize: ", options.mean.size(),
                                                   " means and ", options.stddev.size(),
                                                   " stddevs; expected one of each per channel"));
  }
  for (size_t c = 0; c < options.mean.size(); ++c) {
    if (std::isfinite(options.mean[c]) && std::isfinite(1.0f / options.stddev[c]) &&
        options.stddev[c] > 0) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("normalize: channel ", c, " has mean ", options.mean[c], " and stddev ",
                     options.stddev[c], "; expected finite numbers, stddev > 0"));
  }
  return std::make_unique<Normalize>(std::move(options));
}

}  // namespace millrace::augment
