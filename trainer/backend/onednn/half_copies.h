#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_HALF_COPIES_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_HALF_COPIES_H_

#include <dnnl.hpp>
#include <span>
#include <vector>

namespace millrace::trainer {

// Elements of a memory in its plain order, which are of float or bfloat16, as floats.
std::vector<float> FloatsOf(const dnnl::memory& memory);

// Sets the elements of a memory, of float or bfloat16. REQUIRES: there are as many.
void CopyFloats(std::span<const float> from, const dnnl::memory& to);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_HALF_COPIES_H_
