#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "readers/example/sequence_parser.h"
#include "readers/example_view.h"

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

// Collects those of every step (the sink of DecodeFeatureList).
struct StepsSink {
  std::vector<FeatureValues> steps;
  ValuesSink step;

  void Step() { steps.emplace_back(); }
  void Begin(FeatureKind kind) {
    At([&](ValuesSink& sink) { sink.Begin(kind); });
  }
  void Bytes(std::string_view value) {
    At([&](ValuesSink& sink) { sink.Bytes(value); });
  }
  void Int(int64_t value) {
    At([&](ValuesSink& sink) { sink.Int(value); });
  }
  void Floats(std::string_view packed) {
    At([&](ValuesSink& sink) { sink.Floats(packed); });
  }

 private:
  template <typename Add>
  void At(Add&& add) {
    step.values.swap(steps.back());
    add(step);
    step.values.swap(steps.back());
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

absl::StatusOr<std::map<std::string, std::vector<FeatureValues>>> ViewFeatureLists(
    std::string_view example) {
  std::map<std::string, std::vector<FeatureValues>> lists;
  WireError error;
  WireError list_error;
  const bool whole = internal::VisitFeatureLists(example, &error, [&](const FeatureEntry& entry) {
    StepsSink sink;
    if (list_error.ok() && internal::DecodeFeatureList(example, entry, &list_error, sink)) {
      lists[std::string(entry.key)] = std::move(sink.steps);
    }
  });
  if (whole && list_error.ok()) return lists;
  return absl::DataLossError("not a tf.train.SequenceExample: " +
                             (whole ? list_error : error).ToString());
}

}  // namespace millrace::readers
