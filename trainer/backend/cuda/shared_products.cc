#include "trainer/backend/cuda/shared_products.h"

#include <optional>
#include <utility>
#include <vector>

namespace millrace::trainer::cuda {
namespace {

class StandIn final : public Product {
 public:
  size_t workspace_bytes() const override { return 0; }
  absl::Status Run(void*, const ProductTensors&, void*) const override {
    return absl::InternalError("the product is not made yet");
  }
  std::string Describe() const override { return "not made yet"; }
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Product>> SharedProducts::Make(const ProductSpec& spec) {
  const std::string key = Describe(spec);
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  if (!is_foreseeing_) return Keep(key, MakeNew(spec));
  foreseen_.emplace(key, spec);
  return std::make_shared<const StandIn>();
}

absl::StatusOr<std::shared_ptr<const Product>> SharedProducts::Keep(const std::string& key,
                                                                    MadeProduct product) {
  if (product.ok()) {
    const std::shared_ptr<const Product> shared = *std::move(product);
    made_.emplace(key, shared);
    return shared;
  }
  if (absl::IsUnimplemented(product.status())) made_.emplace(key, product.status());
  return product.status();
}

absl::Status SharedProducts::Foresee(const std::function<absl::Status()>& ask) {
  is_foreseeing_ = true;
  absl::Status status = ask();
  is_foreseeing_ = false;
  if (status.ok()) status = MakeForeseen();
  foreseen_.clear();
  return status;
}

// A named plan that cannot be made is left to Make, which chooses another.
absl::Status SharedProducts::MakeForeseen() {
  std::vector<std::string> keys;
  std::vector<ProductRequest> requests;
  for (const auto& [key, spec] : foreseen_) {
    const std::optional<ProductRequest> request =
        tuned_ != nullptr ? tuned_->RequestOf(spec) : ProductRequest{spec};
    if (!request) continue;
    keys.push_back(key);
    requests.push_back(*request);
  }
  std::vector<MadeProduct> made = device_.MakeProducts(requests, threads_);
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].ok() && !requests[i].plan.empty()) continue;
    const absl::Status status = Keep(keys[i], std::move(made[i])).status();
    if (!status.ok() && !absl::IsUnimplemented(status)) return status;
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer::cuda
