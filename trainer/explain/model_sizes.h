#ifndef MILLRACE_TRAINER_EXPLAIN_MODEL_SIZES_H_
#define MILLRACE_TRAINER_EXPLAIN_MODEL_SIZES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainer/model/model.h"

namespace millrace::trainer {

// "841.3 KiB" of so many floats.
std::string BytesOfFloats(int64_t count);

// Rows for FormatTable: the model's parameters, buffers, FLOPs, and results of all layers for a
// batch of `batch` samples, over all ranks; 0: for one sample.
std::vector<std::pair<std::string, std::string>> ModelSizes(const Model& model, uint64_t batch);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_EXPLAIN_MODEL_SIZES_H_
