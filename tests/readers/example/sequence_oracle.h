#ifndef MILLRACE_TESTS_READERS_EXAMPLE_SEQUENCE_ORACLE_H_
#define MILLRACE_TESTS_READERS_EXAMPLE_SEQUENCE_ORACLE_H_

#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "readers/example/feature_spec.h"
#include "readers/example/sequence_parser.h"
#include "tests/readers/example/example_oracle.h"

// What a SequenceExample holds, once as our parser and once as libprotobuf reads it.

namespace millrace::readers {

struct SequenceValues {
  ExampleValues context;
  std::map<std::string, std::vector<SeenFeature>> lists;

  friend bool operator==(const SequenceValues&, const SequenceValues&) = default;
};

struct CollectingSteps {
  std::vector<CollectingSink> steps;

  void Step() { steps.emplace_back(); }
  void Begin(internal::FeatureKind kind) { steps.back().Begin(kind); }
  void Bytes(std::string_view value) { steps.back().Bytes(value); }
  void Int(int64_t value) { steps.back().Int(value); }
  void Floats(std::string_view packed) { steps.back().Floats(packed); }
};

// nullopt: rejected, and `error` says why.
inline std::optional<SequenceValues> ParseSequenceWithMillrace(std::string_view example,
                                                               internal::WireError* error) {
  auto context = ParseWithMillrace(example, error);
  if (!context) return std::nullopt;
  SequenceValues result{*std::move(context), {}};
  internal::WireError value_error;
  const bool framed =
      internal::VisitFeatureLists(example, error, [&](const internal::FeatureEntry& entry) {
        CollectingSteps sink;
        internal::DecodeFeatureList(example, entry, &value_error, sink);
        std::vector<SeenFeature>& list = result.lists[std::string(entry.key)];
        list.clear();
        for (const CollectingSink& step : sink.steps) list.push_back(step.values);
      });
  if (framed && value_error.ok()) return result;
  if (framed) *error = value_error;
  return std::nullopt;
}

inline std::optional<SequenceValues> ParseSequenceWithProtobuf(std::string_view bytes) {
  oracle::SequenceExample example;
  if (!example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  SequenceValues values{ToValues(example.context()), {}};
  for (const auto& [key, list] : example.feature_lists().feature_list()) {
    std::vector<SeenFeature>& steps = values.lists[key];
    for (const oracle::Feature& step : list.feature()) steps.push_back(ToValues(step));
  }
  return values;
}

// The bytes of the array that a feature list is to become, or nothing where its steps are not as
// `spec` says.
inline std::optional<std::string> ArrayOf(const FeatureSpec& spec,
                                          const std::vector<SeenFeature>& steps) {
  const auto wanted = static_cast<size_t>(internal::ShapeOf(spec, 1).num_elements());
  std::string array;
  for (const SeenFeature& step : steps) {
    const bool is_int = spec.dtype == DType::kI64 && step.kind == internal::FeatureKind::kInt;
    const bool is_float = spec.dtype == DType::kF32 && step.kind == internal::FeatureKind::kFloat;
    const bool is_bytes = spec.dtype == DType::kU8 && step.kind == internal::FeatureKind::kBytes;
    if (is_int && step.ints.size() == wanted) {
      array.append(reinterpret_cast<const char*>(step.ints.data()), wanted * 8);
    } else if (is_float && step.floats.size() == wanted) {
      array.append(reinterpret_cast<const char*>(step.floats.data()), wanted * 4);
    } else if (is_bytes && step.bytes.size() == 1 && step.bytes[0].size() == wanted) {
      array += step.bytes[0];
    } else {
      return std::nullopt;
    }
  }
  return array;
}

// A feature list of steps of `shape`.
inline FeatureSpec ListSpec(std::string key, DType dtype, Shape shape = {}) {
  FeatureSpec spec;
  spec.name = key;
  spec.key = std::move(key);
  spec.dtype = dtype;
  spec.shape = shape.Prepend(Shape::kUnknown);
  spec.per_step = true;
  return spec;
}

inline oracle::SequenceExample RandomSequenceExample(std::mt19937_64& random) {
  oracle::SequenceExample example;
  if (random() % 4 != 0) *example.mutable_context() = RandomExample(random).features();
  for (uint64_t n = random() % 5; n > 0; --n) {
    auto& map = *example.mutable_feature_lists()->mutable_feature_list();
    oracle::FeatureList& list = map[RandomKey(random)];
    for (uint64_t steps = random() % 4; steps > 0; --steps) {
      *list.add_feature() = RandomFeature(random);
    }
  }
  return example;
}

// A SequenceExample without context, of the entries.
inline std::string WrapLists(std::string_view entries) { return Message(2, entries); }
// The Feature of one step.
inline std::string StepOf(std::string_view lists) { return Message(1, lists); }
// A list of int64.
inline std::string Ints(std::string_view varints) { return Message(3, Message(1, varints)); }

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_EXAMPLE_SEQUENCE_ORACLE_H_
