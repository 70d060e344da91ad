#include "trainer/backend/cuda/tuning/tuned_plans.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/cuda/tuning/plan_timer.h"

namespace millrace::trainer::cuda {

TunedPlans::TunedPlans(Device& device, Warn warn)
    : device_(device), warn_(std::move(warn)), book_(device.PlansKey()) {}

void TunedPlans::Fix(const PlanBook& book) {
  Note(book);
  is_fixed_ = true;
}

absl::StatusOr<std::unique_ptr<Product>> TunedPlans::MakeProduct(const ProductSpec& spec) {
  std::unique_ptr<Product> product;
  MILLRACE_RETURN_IF_ERROR(device_.OnDevice([&]() -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(product, Choose(spec));
    return absl::OkStatus();
  }));
  return product;
}

TunedPlans::MadeProduct TunedPlans::Choose(const ProductSpec& spec) {
  const std::string key = Describe(spec);
  const std::optional<std::string> noted = book_.Find(key);
  if (!noted && is_fixed_) return device_.MakeProduct(spec);
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ProductPlans> plans, device_.PlansOf(spec));
  std::unique_ptr<Product> product;
  if (noted) {
    product = MakeNamed(*plans, *noted);
    if (product == nullptr) {
      Say(absl::StrCat("cudnn_plans: the plan ", *noted, " is not there any more, of: ", key));
    }
  }
  if (product == nullptr && !is_fixed_) {
    MILLRACE_ASSIGN_OR_RETURN(product, MakeQuickest(spec, *plans));
  }
  if (product != nullptr) return product;
  return device_.MakeProduct(spec);
}

std::unique_ptr<Product> TunedPlans::MakeNamed(ProductPlans& plans, const std::string& name) const {
  for (size_t i = 0; i < plans.names().size(); ++i) {
    if (plans.names()[i] != name) continue;
    MadeProduct product = plans.Make(i);
    return product.ok() ? *std::move(product) : nullptr;
  }
  return nullptr;
}

// A plan that cannot be made or timed is not taken, unless the device is broken since. At equal
// times the first one is.
TunedPlans::MadeProduct TunedPlans::MakeQuickest(const ProductSpec& spec, ProductPlans& plans) {
  const std::string key = Describe(spec);
  absl::StatusOr<PlanTimer> timer = PlanTimer::Make(device_, spec);
  absl::Status failed = timer.status();
  std::unique_ptr<Product> quickest;
  double least = 0;
  for (size_t i = 0; timer.ok() && i < plans.names().size(); ++i) {
    MadeProduct product = plans.Make(i);
    if (!product.ok()) {
      failed = product.status();
      continue;
    }
    const absl::StatusOr<double> ms = timer->Measure(**product);
    if (!ms.ok()) {
      failed = Annotate(ms.status(), absl::StrCat("plan ", plans.names()[i]));
      if (!device_.Synchronize().ok()) return failed;
      continue;
    }
    if (quickest != nullptr && *ms >= least) continue;
    quickest = *std::move(product);
    least = *ms;
  }
  if (quickest != nullptr) {
    ++num_tuned_;
    book_.Set(key, quickest->Describe());
  } else {
    Say(absl::StrCat("cudnn_plans: no plan was timed, so the first is taken, of: ", key, " (",
                     failed.message(), ")"));
  }
  return quickest;
}

}  // namespace millrace::trainer::cuda
