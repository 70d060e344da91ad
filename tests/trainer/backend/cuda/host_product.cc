// Products as naive loops. Sums are in double and in one order, so the bits are always the same.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "tests/trainer/backend/cuda/host_device.h"

namespace millrace::trainer::cuda {
namespace {

std::vector<double> ReadAll(const void* from, DType type, size_t count) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    if (type == DType::kF32) values[i] = static_cast<const float*>(from)[i];
    if (type == DType::kBF16) values[i] = ToFloat(static_cast<const BFloat*>(from)[i]);
    if (type == DType::kF16) values[i] = ToFloat(static_cast<const Half*>(from)[i]);
  }
  return values;
}

void WriteAll(const std::vector<double>& values, DType type, void* to) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    if (type == DType::kF32) static_cast<float*>(to)[i] = value;
    if (type == DType::kBF16) static_cast<BFloat*>(to)[i] = ToBFloat(value);
    if (type == DType::kF16) static_cast<Half*>(to)[i] = ToHalf(value);
  }
}

class HostProduct final : public Product {
 public:
  explicit HostProduct(const ProductSpec& spec)
      : spec_(spec),
        group_channels_(spec.channels / spec.window.groups),
        x_values_(spec.rows * spec.height * spec.width * spec.channels),
        w_values_(spec.filters * spec.window.kernel[0] * spec.window.kernel[1] * group_channels_),
        y_values_(spec.rows * spec.out_height * spec.out_width * spec.filters) {}

  // Some bytes, which it writes, so that two of one workspace do not go unnoticed.
  size_t workspace_bytes() const override { return 96; }
  absl::Status Run(void* stream, const ProductTensors& tensors, void* workspace) const override {
    return static_cast<HostStream*>(stream)->Give([spec = *this, tensors, workspace] {
      std::memset(workspace, 0x5A, spec.workspace_bytes());
      spec.Compute(tensors);
      return absl::OkStatus();
    });
  }
  std::string Describe() const override { return "loops"; }

 private:
  void Compute(const ProductTensors& tensors) const;
  // Calls `visit` with the first elements of x, w and y that meet, for each group of channels of
  // x and w and each element of y.
  template <typename Visit>
  void ForEach(const Visit& visit) const;
  template <typename Visit>
  void ForEachPlace(int64_t row, int64_t y, int64_t x, const Visit& visit) const;

  const ProductSpec spec_;
  const int64_t group_channels_;
  const int64_t x_values_;
  const int64_t w_values_;
  const int64_t y_values_;
};

template <typename Visit>
void HostProduct::ForEachPlace(int64_t row, int64_t y, int64_t x, const Visit& visit) const {
  const Window& w = spec_.window;
  for (int64_t ky = 0; ky < w.kernel[0]; ++ky) {
    const int64_t sy = y * w.stride[0] - w.padding[0] + ky * w.dilation[0];
    if (sy < 0 || sy >= spec_.height) continue;
    for (int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const int64_t sx = x * w.stride[1] - w.padding[2] + kx * w.dilation[1];
      if (sx < 0 || sx >= spec_.width) continue;
      visit(((row * spec_.height + sy) * spec_.width + sx) * spec_.channels,
            (ky * w.kernel[1] + kx) * group_channels_);
    }
  }
}

template <typename Visit>
void HostProduct::ForEach(const Visit& visit) const {
  const int64_t filter_values = spec_.window.kernel[0] * spec_.window.kernel[1] * group_channels_;
  const int64_t group_filters = spec_.filters / spec_.window.groups;
  const int64_t places = spec_.out_height * spec_.out_width;
  for (int64_t i = 0; i < spec_.rows * places; ++i) {
    const int64_t y = i % places / spec_.out_width;
    const int64_t x = i % places % spec_.out_width;
    ForEachPlace(i / places, y, x, [&](int64_t from, int64_t weights) {
      for (int64_t f = 0; f < spec_.filters; ++f) {
        visit(from + f / group_filters * group_channels_, f * filter_values + weights,
              i * spec_.filters + f);
      }
    });
  }
}

void HostProduct::Compute(const ProductTensors& tensors) const {
  const int64_t n = group_channels_;
  std::vector<double> x(x_values_);
  std::vector<double> w(w_values_);
  std::vector<double> y(y_values_);
  if (spec_.pass != ProductPass::kDataGradient) x = ReadAll(tensors.x, spec_.type, x.size());
  if (spec_.pass != ProductPass::kWeightGradient) w = ReadAll(tensors.w, spec_.type, w.size());
  if (spec_.pass != ProductPass::kForward) y = ReadAll(tensors.y, spec_.type, y.size());
  switch (spec_.pass) {
    case ProductPass::kForward:
      for (size_t i = 0; spec_.has_bias && i < y.size(); ++i) {
        y[i] = tensors.bias[i % spec_.filters];
      }
      ForEach([&](int64_t xi, int64_t wi, int64_t yi) {
        double sum = 0;
        for (int64_t c = 0; c < n; ++c) sum += x[xi + c] * w[wi + c];
        y[yi] += sum;
      });
      for (double& value : y) value = spec_.has_relu && value < 0 ? 0 : value;
      return WriteAll(y, spec_.result, tensors.y);
    case ProductPass::kDataGradient:
      if (spec_.has_addend) x = ReadAll(tensors.addend, spec_.result, x.size());
      ForEach([&](int64_t xi, int64_t wi, int64_t yi) {
        for (int64_t c = 0; c < n; ++c) x[xi + c] += y[yi] * w[wi + c];
      });
      return WriteAll(x, spec_.result, tensors.x);
    case ProductPass::kWeightGradient:
      ForEach([&](int64_t xi, int64_t wi, int64_t yi) {
        for (int64_t c = 0; c < n; ++c) w[wi + c] += x[xi + c] * y[yi];
      });
      return WriteAll(w, spec_.result, tensors.w);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Product>> MakeHostProduct(const ProductSpec& spec) {
  const int64_t groups = spec.window.groups;
  const bool fits = spec.rows >= 1 && groups >= 1 && spec.channels % groups == 0 &&
                    spec.filters % groups == 0 && spec.channels >= 1 && spec.filters >= 1;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("a product of ", spec.channels, " channels and ",
                                                   spec.filters, " filters in ", groups,
                                                   " groups"));
  }
  return std::make_unique<HostProduct>(spec);
}

}  // namespace millrace::trainer::cuda
