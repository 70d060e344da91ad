#ifndef MILLRACE_TRAINER_BACKEND_CUDA_COPIES_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_COPIES_H_

#include <cstdint>

#include "trainer/backend/cuda/network_parts.h"

namespace millrace::trainer::cuda {

// The tensor to which a gradient is to be written, or added.
struct Target {
  Tensor to;  // none: nothing needs it
  bool accumulates = false;

  explicit operator bool() const { return static_cast<bool>(to); }
  template <typename T = void>
  T* Open(Access& memory) const {
    return accumulates ? memory.Update<T>(to) : memory.Write<T>(to);
  }
};

// Pixels that get another type, or more or fewer channels.
struct Conversion {
  Tensor from;
  int64_t from_channels = 1;
  Tensor to;
  int64_t to_channels = 1;
  int64_t pixels = 0;
  bool has_factor = false;  // true: the loss scale is taken out
};

// Adds an operation for `conversion`.
void AddConversion(NetworkParts& parts, Draft draft, const Conversion& conversion);

// Adds operations for to [+]= from: `count` values, of one type or two.
void AddCopy(NetworkParts& parts, const Draft& draft, const Tensor& from, const Target& to,
             int64_t count);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_COPIES_H_
