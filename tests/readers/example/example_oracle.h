#ifndef MILLRACE_TESTS_READERS_EXAMPLE_EXAMPLE_ORACLE_H_
#define MILLRACE_TESTS_READERS_EXAMPLE_EXAMPLE_ORACLE_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "example.pb.h"
#include "readers/example/parser.h"

// What an Example holds, once as our parser and once as libprotobuf reads it.

namespace millrace::readers {

struct SeenFeature {
  internal::FeatureKind kind = internal::FeatureKind::kNone;
  std::vector<std::string> bytes;
  std::vector<uint32_t> floats;  // their bits, so that NaN equals itself
  std::vector<int64_t> ints;

  friend bool operator==(const SeenFeature&, const SeenFeature&) = default;
};
using ExampleValues = std::map<std::string, SeenFeature>;

struct CollectingSink {
  SeenFeature values;

  void Begin(internal::FeatureKind kind) {
    values = {};
    values.kind = kind;
  }
  void Bytes(std::string_view value) { values.bytes.emplace_back(value); }
  void Int(int64_t value) { values.ints.push_back(value); }
  void Floats(std::string_view packed) {
    const size_t before = values.floats.size();
    values.floats.resize(before + packed.size() / 4);
    if (!packed.empty()) std::memcpy(values.floats.data() + before, packed.data(), packed.size());
  }
};

// nullopt: rejected, and `error` says why.
inline std::optional<ExampleValues> ParseWithMillrace(std::string_view example,
                                                      internal::WireError* error) {
  ExampleValues result;
  internal::WireError value_error;
  const bool framed =
      internal::VisitExample(example, error, [&](const internal::FeatureEntry& entry) {
        CollectingSink sink;
        internal::DecodeFeature(example, entry, &value_error, sink);
        result[std::string(entry.key)] = sink.values;
      });
  if (!framed || value_error.ok()) {
    if (!framed) return std::nullopt;
    return result;
  }
  *error = value_error;
  return std::nullopt;
}

inline SeenFeature ToValues(const oracle::Feature& feature) {
  SeenFeature values;
  values.kind = static_cast<internal::FeatureKind>(feature.kind_case());
  for (const std::string& value : feature.bytes_list().value()) values.bytes.push_back(value);
  for (const float value : feature.float_list().value()) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    values.floats.push_back(bits);
  }
  for (const int64_t value : feature.int64_list().value()) values.ints.push_back(value);
  return values;
}

inline ExampleValues ToValues(const oracle::Features& features) {
  ExampleValues values;
  for (const auto& [key, feature] : features.feature()) values[key] = ToValues(feature);
  return values;
}

inline std::optional<ExampleValues> ParseWithProtobuf(std::string_view bytes) {
  oracle::Example example;
  if (!example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  return ToValues(example.features());
}

// A random Feature of up to 4 values, or of no kind.
inline oracle::Feature RandomFeature(std::mt19937_64& random) {
  oracle::Feature feature;
  const uint64_t kind = random() % 4;
  const uint64_t count = random() % 5;
  if (kind == 1) feature.mutable_bytes_list();
  if (kind == 2) feature.mutable_float_list();
  if (kind == 3) feature.mutable_int64_list();
  for (uint64_t n = 0; n < count; ++n) {
    const uint64_t word = random();
    float real;
    std::memcpy(&real, &word, 4);
    if (kind == 1) feature.mutable_bytes_list()->add_value(std::string(word % 300, 'x'));
    if (kind == 2) feature.mutable_float_list()->add_value(real);
    if (kind == 3) {
      feature.mutable_int64_list()->add_value(static_cast<int64_t>(word >> (word % 64)));
    }
  }
  return feature;
}

inline std::string RandomKey(std::mt19937_64& random) {
  static const std::vector<std::string> kKeys = {"",      "a",    "label", "image/encoded",
                                                 "größe", "数据", "b",     "c"};
  return kKeys[random() % kKeys.size()];
}

// A random Example of all kinds, with empty lists and features of no kind among them.
inline oracle::Example RandomExample(std::mt19937_64& random) {
  oracle::Example example;
  for (uint64_t n = random() % 6; n > 0; --n) {
    auto& map = *example.mutable_features()->mutable_feature();
    oracle::Feature& feature = map[RandomKey(random)];
    feature.MergeFrom(RandomFeature(random));
  }
  return example;
}

// Messages written by hand: a length-delimited field, and a varint one.
inline std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
inline std::string Tag(uint32_t field, uint32_t wire_type) {
  return Varint(field << 3 | wire_type);
}
inline std::string Message(uint32_t field, std::string_view body) {
  return Tag(field, 2) + Varint(body.size()) + std::string(body);
}
inline std::string Entry(std::string_view key, std::string_view feature) {
  return Message(1, Message(1, key) + Message(2, feature));
}
// An Example of the entries.
inline std::string Wrap(std::string_view entries) { return Message(1, entries); }

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_EXAMPLE_EXAMPLE_ORACLE_H_
