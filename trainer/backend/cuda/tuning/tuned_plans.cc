#include "trainer/backend/cuda/tuning/tuned_plans.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "trainer/backend/cuda/tuning/plan_timer.h"

namespace millrace::trainer::cuda {

TunedPlans::TunedPlans(Device& device, int threads, Warn warn)
    : device_(device), threads_(threads), warn_(std::move(warn)), book_(device.PlansKey()) {}

void TunedPlans::Fix(const PlanBook& book) {
  Note(book);
  is_fixed_ = true;
}

std::string TunedPlans::Describe() const {
  const std::string text = absl::StrCat("tuned plans, ", num_tuned_, " of them timed now");
  if (num_tuned_ == 0) return text;
  return text +
         absl::StrFormat(": %.3g ms in all, the first ones %.3g ms", quickest_ms_, first_ms_);
}

std::optional<ProductRequest> TunedPlans::RequestOf(const ProductSpec& spec) const {
  const std::optional<std::string> noted = book_.Find(cuda::Describe(spec));
  if (!noted && !is_fixed_) return std::nullopt;
  return ProductRequest{spec, noted.value_or("")};
}

MadeProduct TunedPlans::MakeProduct(const ProductSpec& spec) {
  const std::string key = cuda::Describe(spec);
  const std::optional<std::string> noted = book_.Find(key);
  if (noted) {
    const ProductRequest request = {spec, *noted};
    MadeProduct product = std::move(device_.MakeProducts({&request, 1}, 1)[0]);
    if (product.ok()) return product;
    Say(absl::StrCat("cudnn_plans: the plan ", *noted, " cannot be made any more, of: ", key));
  }
  if (!is_fixed_) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Product> product, MakeQuickest(spec));
    if (product != nullptr) return product;
  }
  return device_.MakeProduct(spec);
}

// A plan that cannot be made or timed is not taken, unless the device is broken since. At equal
// times the first one is.
MadeProduct TunedPlans::MakeQuickest(const ProductSpec& spec) {
  const std::string key = cuda::Describe(spec);
  std::vector<ProductRequest> requests;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, device_.PlansOf(spec));
  for (const std::string& name : names) requests.push_back({spec, name});
  std::vector<MadeProduct> made = device_.MakeProducts(requests, threads_);
  absl::StatusOr<PlanTimer> timer = PlanTimer::Make(device_, spec);
  absl::Status failed = timer.status();
  std::unique_ptr<Product> quickest;
  double least = 0;
  double first = 0;
  for (size_t i = 0; timer.ok() && i < made.size(); ++i) {
    const absl::StatusOr<double> ms =
        made[i].ok() ? timer->Measure(**made[i]) : absl::StatusOr<double>(made[i].status());
    if (!ms.ok()) {
      failed = Annotate(ms.status(), absl::StrCat("plan ", names[i]));
      if (!device_.Synchronize().ok()) return failed;
    } else if (quickest == nullptr || *ms < least) {
      if (quickest == nullptr) first = *ms;
      quickest = *std::move(made[i]);
      least = *ms;
    }
  }
  if (quickest != nullptr) {
    ++num_tuned_;
    quickest_ms_ += least;
    first_ms_ += first;
    book_.Set(key, quickest->Describe());
  } else {
    Say(absl::StrCat("cudnn_plans: no plan was timed, so the first is taken, of: ", key, " (",
                     failed.message(), ")"));
  }
  return quickest;
}

}  // namespace millrace::trainer::cuda
