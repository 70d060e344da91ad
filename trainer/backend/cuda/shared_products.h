#ifndef MILLRACE_TRAINER_BACKEND_CUDA_SHARED_PRODUCTS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_SHARED_PRODUCTS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/tuning/tuned_plans.h"

namespace millrace::trainer::cuda {

// Makes one product for all layers and networks that ask for the same: a ResNet-50 in training asks
// for 161, of which 71 differ. To make one takes some milliseconds, but one or two seconds if a
// library compiles it, as it does those with an epilogue. Thread-compatible.
class SharedProducts {
 public:
  // What it borrows outlives it. `tuned` chooses plans; null: the device does.
  SharedProducts(Device& device, TunedPlans* tuned, int threads)
      : device_(device), tuned_(tuned), threads_(threads) {}

  // Makes all products that `ask` asks Make for, in several threads, but those whose plans have to
  // be measured. `ask` gets stand-ins, as if there were all products. Returns its error, or that of
  // a product, but not that there is none.
  absl::Status Foresee(const std::function<absl::Status()>& ask);

  // As Device::MakeProduct. That there is none is known the next time, too.
  absl::StatusOr<std::shared_ptr<const Product>> Make(const ProductSpec& spec);

 private:
  MadeProduct MakeNew(const ProductSpec& spec) {
    return tuned_ != nullptr ? tuned_->MakeProduct(spec) : device_.MakeProduct(spec);
  }
  // Keeps a product, or that there is none. Returns whether there is.
  absl::StatusOr<std::shared_ptr<const Product>> Keep(const std::string& key, MadeProduct product);
  absl::Status MakeForeseen();

  Device& device_;
  TunedPlans* const tuned_;
  const int threads_;
  bool is_foreseeing_ = false;
  std::map<std::string, ProductSpec> foreseen_;
  // By description.
  std::map<std::string, absl::StatusOr<std::shared_ptr<const Product>>> made_;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_SHARED_PRODUCTS_H_
