#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_NORM_KERNELS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_NORM_KERNELS_H_

#include <cstdint>

// The loops of batch normalisation, for each set of instructions; the bits are the same. Tensors
// are of float or BFloat, arithmetic is in float.

namespace millrace::trainer {

// The values of a ReLU that let its gradient through.
enum class Mask {
  kNone,    // there is no ReLU
  kInput,   // where scale * x + shift > 0
  kResult,  // where result > 0
};

// A kernel's work on some pixels, one after another in memory. Each kernel reads its own fields.
struct NormWork {
  int64_t pixels = 0;
  int64_t channels = 0;
  const void* x = nullptr;
  const void* addend = nullptr;  // may be null
  void* result = nullptr;        // after the addend and the ReLU
  Mask mask = Mask::kNone;
  // By channel.
  const float* scale = nullptr;
  const float* shift = nullptr;
  const float* origin = nullptr;  // subtracted from x before it is summed

  // Backward.
  const void* dy = nullptr;
  const void* more_dy = nullptr;  // added to dy; may be null
  void* dz = nullptr;             // dy behind the mask; null: it is not kept
  void* dx = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;
  const float* k = nullptr;

  // Sums by channel, to which the work is added.
  float* sums = nullptr;
  float* products = nullptr;
};

struct NormKernels {
  // Sums of (x - origin) and of its square.
  void (*moments)(const NormWork& work);
  // result = scale * x + shift [+ addend], then a ReLU unless the mask is kNone.
  void (*apply)(const NormWork& work);
  // dz = (dy [+ more_dy]) behind the mask; sums of dz and dz * (x - origin).
  void (*sums)(const NormWork& work);
  // dx = a * dz + b * x + k, where dz is dy behind the mask (not kResult).
  void (*combine)(const NormWork& work);
};

// The kernels for this processor, up to MILLRACE_SIMD's limit.
const NormKernels& NormKernelsOf(bool is_half);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_NORM_KERNELS_H_
