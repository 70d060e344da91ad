#include "readers/example_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/readers/example/example_oracle.h"

namespace millrace::readers {
namespace {

TEST(ExampleBuilder, LibprotobufReadsBackWhatWasAdded) {
  ExampleBuilder builder;
  const std::vector<int64_t> ints = {
      0, 1, -1, 127, 128, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  const std::vector<float> floats = {0.0f, -0.0f, 1.5f, std::numeric_limits<float>::infinity()};
  const std::vector<std::string_view> strings = {"", "a", std::string_view("\0\xff", 2)};
  builder.AddInts("ints", ints);
  builder.AddFloats("floats", floats);
  builder.AddBytes("strings", strings);
  builder.AddBytes("image", std::string(70000, 'i'));
  builder.AddInt("label", 7);
  builder.AddFloat("weight", 0.25f);

  oracle::Example expected;
  auto& map = *expected.mutable_features()->mutable_feature();
  for (const int64_t value : ints) map["ints"].mutable_int64_list()->add_value(value);
  for (const float value : floats) map["floats"].mutable_float_list()->add_value(value);
  for (const auto value : strings) {
    map["strings"].mutable_bytes_list()->add_value(std::string(value));
  }
  map["image"].mutable_bytes_list()->add_value(std::string(70000, 'i'));
  map["label"].mutable_int64_list()->add_value(7);
  map["weight"].mutable_float_list()->add_value(0.25f);
  EXPECT_EQ(ParseWithProtobuf(builder.Serialize()), ToValues(expected.features()));
}

TEST(ExampleBuilder, EmptyListsKeepTheirKind) {
  ExampleBuilder builder;
  builder.AddInts("i", {});
  builder.AddFloats("f", {});
  builder.AddBytes("b", std::span<const std::string_view>());
  const auto parsed = ParseWithProtobuf(builder.Serialize());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->at("i").kind, internal::FeatureKind::kInt);
  EXPECT_EQ(parsed->at("f").kind, internal::FeatureKind::kFloat);
  EXPECT_EQ(parsed->at("b").kind, internal::FeatureKind::kBytes);
}

TEST(ExampleBuilder, NoFeaturesIsAnEmptyExample) {
  EXPECT_EQ(ParseWithProtobuf(ExampleBuilder().Serialize()), ExampleValues());
}

TEST(ExampleBuilder, SingleFeatureHasTheBytesThatProtobufWrites) {
  ExampleBuilder builder;
  builder.AddInts("label", std::vector<int64_t>{7, 300});
  oracle::Example expected;
  auto& list = *(*expected.mutable_features()->mutable_feature())["label"].mutable_int64_list();
  list.add_value(7);
  list.add_value(300);
  EXPECT_EQ(builder.Serialize(), expected.SerializeAsString());
}

TEST(ExampleBuilder, FeaturesStandInTheOrderOfTheirFirstAddition) {
  ExampleBuilder builder;
  builder.AddInt("z", 1);
  builder.AddInt("a", 2);
  builder.AddInt("z", 3);
  const std::string bytes = builder.Serialize();
  EXPECT_LT(bytes.find('z'), bytes.find('a'));
  EXPECT_EQ(ParseWithProtobuf(bytes)->at("z").ints, std::vector<int64_t>{3});
}

TEST(ExampleBuilder, ManyFeaturesKeepTheirPlacesToo) {
  ExampleBuilder builder;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 100; ++i) builder.AddInt("key " + std::to_string(i), 1000 * round + i);
  }
  const std::string bytes = builder.Serialize();
  const auto values = ParseWithProtobuf(bytes);
  ASSERT_TRUE(values.has_value());
  ASSERT_EQ(values->size(), 100u);
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key " + std::to_string(i);
    EXPECT_EQ(values->at(key).ints, std::vector<int64_t>{1000 + i});
    EXPECT_LT(bytes.find("key " + std::to_string(i / 2)), bytes.rfind(key) + 1);
  }
}

TEST(ExampleBuilder, ClearForgetsAllFeatures) {
  ExampleBuilder builder;
  builder.AddInt("a", 1);
  builder.Clear();
  builder.AddInt("b", 2);
  EXPECT_EQ(ParseWithProtobuf(builder.Serialize())->size(), 1u);
}

}  // namespace
}  // namespace millrace::readers
