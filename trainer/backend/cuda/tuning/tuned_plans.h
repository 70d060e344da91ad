#ifndef MILLRACE_TRAINER_BACKEND_CUDA_TUNING_TUNED_PLANS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_TUNING_TUNED_PLANS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/tuning/plan_book.h"

namespace millrace::trainer::cuda {

// Chooses the plans of a device's products by their time.
//
// At first it tunes: a product whose plan is not noted yet gets the quickest of PlansOf, which is
// noted. Once the plans are fixed, it measures no more: products get the plans that are noted, and
// all others those of the device's own choice. So ranks that were given the notes of one of them
// compute alike. Thread-compatible.
class TunedPlans {
 public:
  using Warn = std::function<void(std::string_view line)>;

  // The device outlives it. Plans of a product are built in `threads` threads. `warn`, which may be
  // empty, is told of plans that could not be timed, and of noted ones that are not there.
  TunedPlans(Device& device, int threads, Warn warn);

  // Notes plans of before.
  void Note(const PlanBook& book) { book_.Add(book); }
  // Notes plans, and ends the tuning.
  void Fix(const PlanBook& book);
  const PlanBook& book() const { return book_; }
  // Products whose plans were timed.
  int num_tuned() const { return num_tuned_; }
  // "tuned plans, 71 of them timed now: 9.8 ms in all, the first ones 11.2 ms": for people.
  std::string Describe() const;

  // As Device::MakeProduct.
  MadeProduct MakeProduct(const ProductSpec& spec);
  // The request by which MakeProduct makes a product; nullopt: it would measure plans.
  std::optional<ProductRequest> RequestOf(const ProductSpec& spec) const;

 private:
  // The product by the quickest of its plans; null: none could be timed.
  MadeProduct MakeQuickest(const ProductSpec& spec);
  void Say(std::string_view text) const {
    if (warn_) warn_(text);
  }

  Device& device_;
  const int threads_;
  const Warn warn_;
  PlanBook book_;
  bool is_fixed_ = false;
  int num_tuned_ = 0;
  // Of the products whose plans were timed, one run of each.
  double quickest_ms_ = 0;
  double first_ms_ = 0;  // by the first plan that could be timed
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_TUNING_TUNED_PLANS_H_
