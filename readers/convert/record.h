#ifndef MILLRACE_READERS_CONVERT_RECORD_H_
#define MILLRACE_READERS_CONVERT_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"

// The records that go from the container that is read to the one that is written.

namespace millrace::readers::internal {

struct SampleFeature {
  std::string name;
  // As many values as there are, of one kind.
  std::variant<std::vector<std::string>, std::vector<int64_t>, std::vector<float>> values;

  DType dtype() const {
    constexpr DType kDtypes[] = {DType::kBytes, DType::kI64, DType::kF32};
    return kDtypes[values.index()];
  }
  size_t num_values() const {
    return std::visit([](const auto& list) { return list.size(); }, values);
  }
};

using Sample = std::vector<SampleFeature>;

// Null: there is none of that name.
inline const SampleFeature* Find(const Sample& sample, std::string_view name) {
  for (const SampleFeature& feature : sample) {
    if (feature.name == name) return &feature;
  }
  return nullptr;
}

// The one value of a feature; nullptr: it has another kind, or not one value.
template <typename T>
const T* OneValue(const SampleFeature& feature) {
  const auto* const list = std::get_if<std::vector<T>>(&feature.values);
  return list != nullptr && list->size() == 1 ? list->data() : nullptr;
}

// A record on its way.
struct ConvertRecord {
  std::string bytes;             // where records are copied as they are
  Sample sample;                 // where they are samples
  std::optional<int64_t> label;  // to be counted
};

// A record as the output's shards take it.
struct EncodedRecord {
  std::string bytes = {};
  std::string path = {};  // in a shard that is a folder
  int64_t label = 0;      // in a shard that has labels
  std::optional<int64_t> counted_label = {};
};

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_RECORD_H_
