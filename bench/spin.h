#ifndef MILLRACE_BENCH_SPIN_H_
#define MILLRACE_BENCH_SPIN_H_

namespace millrace::bench {

// Issues a kernel on `stream`, a cudaStream_t, that keeps the stream busy for `microseconds` and
// reads one byte of `input` in device memory. Stands for the training step of a batch.
void Spin(const void* input, int microseconds, void* stream);

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_SPIN_H_
