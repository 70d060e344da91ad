#ifndef MILLRACE_TRAINER_BACKEND_CUDA_SHARED_PRODUCTS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_SHARED_PRODUCTS_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/tuning/tuned_plans.h"

namespace millrace::trainer::cuda {

// Makes one product for all layers and networks that ask for the same: to make one takes 25 to 40
// ms, and up to a second with an epilogue. Thread-compatible.
class SharedProducts {
 public:
  // What it borrows outlives it. `tuned` chooses plans; null: the device does.
  SharedProducts(Device& device, TunedPlans* tuned) : device_(device), tuned_(tuned) {}

  // As Device::MakeProduct. That there is none is known the next time, too.
  absl::StatusOr<std::shared_ptr<const Product>> Make(const ProductSpec& spec);

 private:
  absl::StatusOr<std::unique_ptr<Product>> MakeNew(const ProductSpec& spec) {
    return tuned_ != nullptr ? tuned_->MakeProduct(spec) : device_.MakeProduct(spec);
  }

  Device& device_;
  TunedPlans* const tuned_;
  // By description.
  std::map<std::string, absl::StatusOr<std::shared_ptr<const Product>>> made_;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_SHARED_PRODUCTS_H_
