#ifndef MILLRACE_PIPELINE_STAGES_CONVERT_H_
#define MILLRACE_PIPELINE_STAGES_CONVERT_H_

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "pipeline/pipeline.pb.h"

// Values of a stage's message as the options of ops have them.

namespace millrace::pipeline {

inline DType ToDType(proto::DataType dtype) {
  // The same numbers, shifted by the message's UNSPECIFIED.
  static_assert(proto::BYTES == static_cast<int>(DType::kBytes) + 1);
  static_assert(proto::FLOAT64 == static_cast<int>(DType::kF64) + 1);
  return static_cast<DType>(static_cast<int>(dtype) - 1);
}

// Unknown extents are -1 on both sides.
inline Shape ToShape(const google::protobuf::RepeatedField<int64_t>& extents) {
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(extents.size())));
}

// One number or two. REQUIRES: there is one.
inline std::array<float, 2> ToRange(const google::protobuf::RepeatedField<float>& numbers) {
  return {numbers[0], numbers[numbers.size() - 1]};
}

template <typename Number>
std::vector<Number> ToVector(const google::protobuf::RepeatedField<Number>& numbers) {
  return {numbers.begin(), numbers.end()};
}

inline std::vector<std::string> ToVector(
    const google::protobuf::RepeatedPtrField<std::string>& names) {
  return {names.begin(), names.end()};
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_CONVERT_H_
