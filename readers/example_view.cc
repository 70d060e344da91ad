#include "readers/example_view.h"

#include <cstring>
#include <utility>

#include "readers/example_parser_internal.h"

namespace millrace::readers {
namespace {

using internal::FeatureEntry;
using internal::FeatureKind;
using internal::WireError;

// Collects the values of one feature (the sink of DecodeFeature).
struct ValuesSink {
  FeatureValues values;

  void Begin(FeatureKind kind) {
    if (kind == FeatureKind::kBytes) values = std::vector<std::string_view>();
    if (kind == FeatureKind::kFloat) values = std::vector<float>();
    if (kind == FeatureKind::kInt) values = std::vector<int64_t>();
  }
  void Bytes(std::string_view value) {
    std::get<std::vector<std::string_view>>(values).push_back(value);
  }
  void Int(int64_t value) { std::get<std::vector<int64_t>>(values).push_back(value); }
  void Floats(std::string_view packed) {
    if (packed.empty()) return;
    auto& floats = std::get<std::vector<float>>(values);
    const size_t before = floats.size();
    floats.resize(before + packed.size() / sizeof(float));
    std::memcpy(floats.data() + before, packed.data(), packed.size());
  }
};

}  // namespace

absl::StatusOr<std::map<std::string, FeatureValues>> ViewExample(std::string_view example) {
  std::map<std::string, FeatureValues> features;
  WireError error;
  WireError value_error;
  const bool whole = internal::VisitExample(example, &error, [&](const FeatureEntry& entry) {
    ValuesSink sink;
    if (value_error.ok() && internal::DecodeFeature(example, entry, &value_error, sink)) {
      features[std::string(entry.key)] = std::move(sink.values);
    }
  });
  if (whole && value_error.ok()) return features;
  return absl::DataLossError("not a tf.train.Example: " + (whole ? value_error : error).ToString());
}

}  // namespace millrace::readers
