#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_GRID_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_GRID_H_

namespace millrace::trainer::cuda {

// The threads of a kernel's launch.
struct Grid {
  const char* name = "";  // of the kernel, for messages; lives for ever
  unsigned blocks = 1;
  unsigned threads = 1;  // of a block
  // True if the kernel has barriers or shuffles: its threads must then run beside each other, which
  // takes a processor that has none of its own much longer.
  bool has_barriers = false;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_GRID_H_
