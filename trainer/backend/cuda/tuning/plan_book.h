#ifndef MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_BOOK_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_BOOK_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace millrace::trainer::cuda {

// The plans that were chosen for products on one kind of device, by name. As text it is:
//
//   millrace plans 1
//   NVIDIA H200, cuDNN 9.19.0
//   eng62_k2=4_k13=0_k18=0<tab>forward convolution, bfloat16 [256, 56, 56, 64] by ...
//   ...
//   crc32c 1b2c3d4e
//
// in the order of the products, where the sum is the masked one of all before its line.
class PlanBook {
 public:
  // `key` is Device::PlansKey.
  explicit PlanBook(std::string key) : key_(std::move(key)) {}

  // INVALID_ARGUMENT: it is no such text, or not a whole one.
  static absl::StatusOr<PlanBook> FromText(std::string_view text);
  std::string ToText() const;

  const std::string& key() const { return key_; }
  size_t size() const { return names_.size(); }
  // The name of the plan of `product`, as Describe(ProductSpec) tells it; nullopt: none is noted.
  std::optional<std::string> Find(const std::string& product) const;
  // Notes a plan, in place of one that was. Names and descriptions are one line, without tabs.
  void Set(const std::string& product, const std::string& name) { names_[product] = name; }
  // Notes all plans of `other`.
  void Add(const PlanBook& other);

  friend bool operator==(const PlanBook&, const PlanBook&) = default;

 private:
  std::string key_;
  std::map<std::string, std::string> names_;  // by product
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_BOOK_H_
