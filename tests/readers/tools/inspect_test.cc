#include "readers/inspect.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "readers/example_builder.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/readers/image_fixtures.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::Pair;

class InspectTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::vector<std::string>& payloads,
                    Compression compression = Compression::kNone) {
    const std::string path = folder_ / name;
    auto writer = TfRecordWriter::Open(path, {.compression = compression});
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const std::string& payload : payloads) EXPECT_TRUE((*writer)->Write(payload).ok());
    EXPECT_TRUE((*writer)->Close().ok());
    return path;
  }
  static InspectReport Look(std::vector<std::string> files, const InspectOptions& options = {}) {
    const auto report = Inspect(files, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return *report;
  }
  static const FeatureReport& Feature(const InspectReport& report, std::string_view key) {
    const auto it = std::ranges::find(report.features, key, &FeatureReport::key);
    EXPECT_NE(it, report.features.end()) << key;
    return *it;
  }

  TempFolder folder_;
};

std::string Sample(std::string_view image, int64_t label) {
  ExampleBuilder builder;
  builder.AddBytes("image", image);
  builder.AddInt("label", label);
  return builder.Serialize();
}

TEST_F(InspectTest, ShardsAndTotalsCountRecordsAndBytes) {
  const std::string a = Write("a", {std::string(10, '\0'), ""});
  const std::string b = Write("b", {Sample("x", 1)}, Compression::kGzip);
  const InspectReport report = Look({a, b});
  ASSERT_EQ(report.shards.size(), 2u);
  EXPECT_EQ(report.shards[0].num_records, 2u);
  EXPECT_EQ(report.shards[0].payload_bytes, 10u);
  EXPECT_EQ(report.shards[0].file_bytes, 42u);
  EXPECT_EQ(report.shards[0].record_bytes.min, 0u);
  EXPECT_EQ(report.shards[0].record_bytes.max, 10u);
  EXPECT_EQ(report.shards[0].mean_record_bytes(), 5);
  EXPECT_EQ(report.shards[0].compression, Compression::kNone);
  EXPECT_EQ(report.shards[0].num_not_examples, 1u);
  EXPECT_EQ(report.shards[1].compression, Compression::kGzip);
  EXPECT_TRUE(report.shards[1].whole);
  EXPECT_EQ(report.total.num_records, 3u);
  EXPECT_EQ(report.total.record_bytes.max, Sample("x", 1).size());
  EXPECT_EQ(report.total.num_damaged, 0u);
}

TEST_F(InspectTest, FeaturesHaveKindsLengthsAndRanges) {
  ExampleBuilder one;
  one.AddInts("ids", std::vector<int64_t>{5, -3});
  one.AddFloats("box", std::vector<float>{1.5f, NAN, -2});
  ExampleBuilder two;
  two.AddInts("ids", {});
  two.AddBytes("text", "abc");
  ExampleBuilder three;
  three.AddFloat("text", 1);
  const InspectReport report =
      Look({Write("a", {one.Serialize(), two.Serialize(), three.Serialize()})});
  const FeatureReport& ids = Feature(report, "ids");
  EXPECT_EQ(ids.kind(), "int64");
  EXPECT_EQ(ids.num_records(), 2u);
  EXPECT_EQ(ids.num_values, (Range<uint64_t>{0, 2}));
  EXPECT_EQ(ids.ints, (Range<int64_t>{-3, 5}));
  const FeatureReport& box = Feature(report, "box");
  EXPECT_EQ(box.kind(), "float");
  EXPECT_EQ(box.floats, (Range<float>{-2, 1.5f}));
  EXPECT_EQ(box.num_nan, 1u);
  const FeatureReport& text = Feature(report, "text");
  EXPECT_EQ(text.kind(), "mixed");
  EXPECT_EQ(text.byte_lengths, (Range<uint64_t>{3, 3}));
}

TEST_F(InspectTest, ImagesAreKnownByTheirMagic) {
  const InspectReport report =
      Look({Write("a", {Sample(MakePng(3, 4), 1), Sample(MakeJpeg(5, 6), 2), Sample("plain", 3),
                        Sample(MakeJpeg(5, 6).substr(0, 8), 3)})});
  const FeatureReport& image = Feature(report, "image");
  EXPECT_THAT(image.image_formats, ElementsAre(Pair("jpeg", 2u), Pair("png", 1u)));
  EXPECT_EQ(image.image_heights, (Range<int64_t>{3, 5}));
  EXPECT_EQ(image.image_widths, (Range<int64_t>{4, 6}));
  EXPECT_EQ(image.num_bad_images, 1u);
}

TEST_F(InspectTest, DamageIsCountedAndPassedOver) {
  const std::string path = Write("a", {Sample("x", 1), Sample("y", 2), Sample("z", 3)});
  std::string bytes = ReadFile(path);
  bytes[bytes.size() / 2] ^= 1;
  WriteFile(path, bytes);
  const InspectReport report = Look({path});
  EXPECT_EQ(report.shards[0].num_records, 2u);
  EXPECT_EQ(report.shards[0].num_damaged, 1u);
  ASSERT_EQ(report.shards[0].damages.size(), 1u);
  EXPECT_EQ(report.shards[0].damages[0].error.ordinal, 1);
  EXPECT_EQ(Feature(report, "label").ints, (Range<int64_t>{1, 3}));
}

TEST_F(InspectTest, MaxRecordsLooksAtTheFirstOnly) {
  const std::string path = Write("a", {Sample("x", 1), Sample("y", 2), Sample("z", 3)});
  const InspectReport report = Look({path}, {.max_records = 2});
  EXPECT_EQ(report.total.num_records, 2u);
  EXPECT_EQ(Feature(report, "label").ints.max, 2);
}

TEST_F(InspectTest, DistinctKeysAreFollowedUpToTheLimit) {
  std::vector<std::string> payloads;
  for (int i = 0; i < 10; ++i) {
    ExampleBuilder builder;
    builder.AddInt("key" + std::to_string(i), i);
    payloads.push_back(builder.Serialize());
  }
  const InspectReport report = Look({Write("a", payloads)}, {.max_features = 4});
  EXPECT_EQ(report.features.size(), 4u);
  EXPECT_EQ(report.num_unfollowed_features, 6u);
}

TEST_F(InspectTest, EmptyAndMissingFilesAreReported) {
  const InspectReport report = Look({Write("empty", {}), folder_ / "none"});
  EXPECT_TRUE(report.shards[0].whole);
  EXPECT_EQ(report.shards[0].record_bytes, Range<uint64_t>());
  EXPECT_EQ(report.shards[0].unreadable, "");
  EXPECT_MESSAGE(report.shards[1].unreadable);
  EXPECT_EQ(report.shards[1].num_damaged, 0u);
  EXPECT_EQ(report.num_unreadable, 1u);
  EXPECT_FALSE(report.ok());
  EXPECT_FALSE(report.shards[1].whole);
  EXPECT_FALSE(report.total.whole);
  EXPECT_EQ(Inspect({}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::readers
