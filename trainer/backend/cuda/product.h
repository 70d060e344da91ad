#ifndef MILLRACE_TRAINER_BACKEND_CUDA_PRODUCT_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "trainer/model/layer.h"

namespace millrace::trainer::cuda {

// A convolution y = x * w, or one of its gradients. A fully connected layer is one of images of one
// pixel; a transposed convolution is a data gradient, and its gradients are the other two.
enum class ProductPass {
  kForward,         // y of x and w
  kDataGradient,    // x of y and w
  kWeightGradient,  // w of x and y
};

// The sizes, types and epilogue of a product. Images are [rows, height, width, channels]; w is
// [filters, kernel height, kernel width, channels / groups].
struct ProductSpec {
  ProductPass pass = ProductPass::kForward;
  int64_t rows = 0;
  int64_t height = 0;  // of x
  int64_t width = 0;
  int64_t channels = 0;
  int64_t out_height = 0;  // of y
  int64_t out_width = 0;
  int64_t filters = 0;
  Window window;  // groups among it

  DType type = DType::kF32;    // of what is read: kF32, kBF16 or kF16
  DType result = DType::kF32;  // of what is written: `type`, or kF32
  bool tf32 = false;  // true if products of kF32 may be rounded to TF32 before they are added

  // Epilogues.
  bool has_bias = false;    // kForward: y += bias, float32, by filter
  bool has_relu = false;    // kForward: y = max(y, 0), after the bias
  bool has_addend = false;  // kDataGradient: x += addend, of the type of x; may be x itself
};

// The memory of a product: the tensor that its pass writes, and those that it reads.
struct ProductTensors {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  const float* bias = nullptr;
  const void* addend = nullptr;
};

// A product that a device has code for. Sums are float32. Immutable, but for its use of the
// workspace. The bits are equal for equal arguments on equal devices and libraries.
class Product {
 public:
  virtual ~Product() = default;

  // Bytes of scratch memory that Run needs.
  virtual size_t workspace_bytes() const = 0;
  // Puts the work on `stream` and does not wait. `workspace` is aligned to 256. INTERNAL: the
  // library's error.
  virtual absl::Status Run(void* stream, const ProductTensors& tensors, void* workspace) const = 0;
  // The library's name of the code: an engine and its settings.
  virtual std::string Describe() const = 0;
};

// A product to be made, and the plan to make it by: code of the device, and its settings.
struct ProductRequest {
  ProductSpec spec;
  std::string plan = {};  // as Product::Describe tells it; empty: the device's choice
};

using MadeProduct = absl::StatusOr<std::unique_ptr<Product>>;

// "forward convolution, bfloat16 [256, 56, 56, 64] by [64, 3, 3, 64], stride 1, padding 1": for
// messages, and as a key. Unlike specs that are valid have unlike texts.
std::string Describe(const ProductSpec& spec);

// Checks that there can be such a product.
//   INVALID_ARGUMENT  the text names the field
absl::Status CheckProductSpec(const ProductSpec& spec);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_PRODUCT_H_
