// Examples that TensorFlow wrote (scripts/make_tf_fixtures.py), against what TensorFlow says is in
// them. The frames are walked here by hand, so that nothing but the parser is judged.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/readers/example/example_oracle.h"

namespace millrace::readers {
namespace {

using internal::FeatureKind;

std::string ReadTestData(const std::string& name) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  EXPECT_NE(root, nullptr);
  std::ifstream in(std::string(root) + "/tests/readers/testdata/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> Payloads(const std::string& file) {
  std::vector<std::string> payloads;
  for (size_t at = 0; at + 16 <= file.size();) {
    uint64_t length;
    std::memcpy(&length, file.data() + at, 8);
    payloads.push_back(file.substr(at + 12, length));
    at += length + 16;
  }
  return payloads;
}

std::string FromBase64(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    out.push_back(static_cast<char>(bits >> num_bits));
  }
  return out;
}

SeenFeature FromJson(const nlohmann::json& feature) {
  SeenFeature values;
  const std::string kind = feature["kind"];
  if (kind == "bytes") values.kind = FeatureKind::kBytes;
  if (kind == "float") values.kind = FeatureKind::kFloat;
  if (kind == "int64") values.kind = FeatureKind::kInt;
  for (const auto& value : feature["values"]) {
    if (kind == "bytes") values.bytes.push_back(FromBase64(value.get<std::string>()));
    if (kind == "int64") values.ints.push_back(value.get<int64_t>());
    if (kind == "float") {
      const auto real = static_cast<float>(value.get<double>());
      values.floats.emplace_back();
      std::memcpy(&values.floats.back(), &real, 4);
    }
  }
  return values;
}

TEST(TensorFlowExamples, ReadAsTensorFlowWroteThem) {
  const auto expected = nlohmann::json::parse(ReadTestData("examples.json"));
  const auto payloads = Payloads(ReadTestData("examples.tfrecord"));
  ASSERT_EQ(payloads.size(), expected.size());
  ASSERT_GT(payloads.size(), 0u);
  for (size_t i = 0; i < payloads.size(); ++i) {
    ExampleValues values;
    for (const auto& [key, feature] : expected[i].items()) values[key] = FromJson(feature);
    internal::WireError error;
    EXPECT_EQ(ParseWithMillrace(payloads[i], &error), values) << error.ToString();
  }
}

}  // namespace
}  // namespace millrace::readers
