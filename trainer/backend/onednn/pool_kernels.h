#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_POOL_KERNELS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_POOL_KERNELS_H_

#include <cstdint>

#include "trainer/model/layer.h"

// Max pools of NHWC images of float or BFloat, for each set of instructions; the bits are the same.

namespace millrace::trainer {

// Places of a window have a number in a byte.
inline constexpr int64_t kMaxPoolPlaces = 256;

struct PoolShape {
  int64_t height = 0;  // of the source
  int64_t width = 0;
  int64_t out_height = 0;
  int64_t out_width = 0;
  int64_t channels = 0;
  Window window;

  int64_t source_values() const { return height * width * channels; }
  int64_t out_values() const { return out_height * out_width * channels; }
};

// One image.
struct PoolWork {
  const PoolShape* shape = nullptr;
  const void* source = nullptr;
  void* output = nullptr;
  uint8_t* places = nullptr;  // of the largest value in each window, the first of equals

  // Backward.
  const void* dy = nullptr;
  void* dx = nullptr;
  bool has_relu = false;  // true if the source is a ReLU's result: dy counts where output > 0
};

struct PoolKernels {
  void (*forward)(const PoolWork& work);
  void (*backward)(const PoolWork& work);
};

// The kernels for this processor, up to MILLRACE_SIMD's limit.
const PoolKernels& PoolKernelsOf(bool is_half);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_POOL_KERNELS_H_
