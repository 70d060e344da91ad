#include "trainer/backend/cuda/shared_products.h"

#include <utility>

#include "absl/status/status.h"

namespace millrace::trainer::cuda {

absl::StatusOr<std::shared_ptr<const Product>> SharedProducts::Make(const ProductSpec& spec) {
  const std::string key = Describe(spec);
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  absl::StatusOr<std::unique_ptr<Product>> product = MakeNew(spec);
  if (product.ok()) {
    const std::shared_ptr<const Product> shared = *std::move(product);
    made_.emplace(key, shared);
    return shared;
  }
  if (absl::IsUnimplemented(product.status())) made_.emplace(key, product.status());
  return product.status();
}

}  // namespace millrace::trainer::cuda
