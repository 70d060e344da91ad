#ifndef MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_PRODUCTS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/product.h"

namespace millrace::trainer::cuda {

struct CudnnOptions {
  std::string library = {};  // the file to load; empty: MILLRACE_CUDNN_LIBRARY, or libcudnn.so.9
  // What cuDNN tells of a device (JSON), to choose plans of one that is not here; empty: the
  // current device.
  std::string device_properties = {};
};

// The plan that a product has: an engine of cuDNN and its settings.
struct PlanChoice {
  std::string name;       // "eng62_k2=4_k13=0_k18=0"
  int64_t num_plans = 0;  // that may be chosen: deterministic, precise enough, supported
  int64_t workspace_bytes = 0;
};

// Makes products of cuDNN's graphs. Of each it takes the first plan in the order of cuDNN's
// heuristics which is deterministic, rounds no more than its spec says, and is supported; so the
// choice is the same for equal devices and libraries. Thread-compatible. The device that was
// current when it was made must be so in all calls, and in those of its products, which may outlive
// it.
//
// All tensors of a product are aligned to 16 bytes. A graph that has captured a product's work is
// not launched any more once the product is gone.
class CudnnProducts {
 public:
  virtual ~CudnnProducts() = default;

  // Loads cuDNN: one library per process.
  //   UNIMPLEMENTED        this build has no plans of cuDNN; the text says why
  //   FAILED_PRECONDITION  cuDNN is missing, too old, broken, or not the one that the process uses;
  //                        the text names the file and the version
  //   INVALID_ARGUMENT     cuDNN does not understand the device's properties
  static absl::StatusOr<std::unique_ptr<CudnnProducts>> Make(const CudnnOptions& options);

  // Chooses a plan, without making anything of it.
  //   INVALID_ARGUMENT  there can be no such product; the text names the field
  //   UNIMPLEMENTED     there is no plan; of a product with an epilogue, there may be one without,
  //                     and the epilogue be a kernel of its own
  virtual absl::StatusOr<PlanChoice> Choose(const ProductSpec& spec) = 0;

  // Makes a product, with the first plan that can also be built. Outcomes as of Choose. Without a
  // device fewer can be built, and none can run.
  virtual MadeProduct MakeProduct(const ProductSpec& spec) = 0;

  // Makes products in up to `threads` threads, the calling one among them. `on_device` runs its
  // argument while the device is the thread's current one. Outcomes as of MakeProduct, and
  //   NOT_FOUND  cuDNN has no such plan for the product, or it may not be chosen
  using OnDevice = std::function<absl::Status(const std::function<absl::Status()>& body)>;
  virtual std::vector<MadeProduct> MakeProducts(std::span<const ProductRequest> requests,
                                                int threads, const OnDevice& on_device) = 0;
  // The names of the first plans that MakeProduct looks at, at most `most`. Outcomes as of Choose.
  virtual absl::StatusOr<std::vector<std::string>> PlansOf(const ProductSpec& spec,
                                                           size_t most) = 0;

  // What cuDNN tells of the device (JSON), for CudnnOptions; empty: it does not.
  virtual std::string DeviceProperties() const = 0;
  // "cuDNN 9.19.0"
  virtual std::string Describe() const = 0;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_PRODUCTS_H_
