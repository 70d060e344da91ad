#include <nlohmann/json.hpp>

#include "tests/messages.h"
#include "tests/readers/text/parse_fields_fixture.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;

class ParseJsonTest : public ParseFieldsTest {
 protected:
  void ParseAs(std::vector<FeatureSpec> features, std::vector<std::string> records) {
    Parse({.format = RecordFormat::kJson, .features = std::move(features), .columns = {}},
          std::move(records));
  }
  // Each of `records` fails so when "x" is wanted.
  void ExpectAll(const FeatureSpec& x, const std::vector<std::string>& records,
                 RecordErrorReason reason) {
    ParseAs({x}, records);
    for (size_t i = 0; i < records.size(); ++i) {
      SCOPED_TRACE(records[i]);
      EXPECT_MESSAGE(Failure(static_cast<int64_t>(i), reason));
    }
  }
};

// S-PARSE-4.
TEST_F(ParseJsonTest, MembersBecomeColumnsByTheirPaths) {
  ParseAs(
      {Want("user.id", DType::kI64), Want("user.name", DType::kBytes),
       Want("box", DType::kF32, {2, 2}), Want("ids", DType::kI64, {-1}), Want("ok", DType::kI64)},
      {R"( {"ok":true, "user":{"name":"Zo\u00eb \ud83d\ude00\n","id":-9223372036854775808,
               "more":[{"id":"x"}]}, "other":{"user":{"id":3}}, "ids":[1,2,3],
               "box":[[1,2.5],[-0,1e-3]]} )",
       R"({"user":{"id":9007199254740993,"name":""},"box":[[1,2],[3,4]],"ids":[],"ok":false})"});
  ASSERT_TRUE(run_->all_ok()) << run_->status(0) << run_->status(1);
  EXPECT_THAT(Ints("user.id", 0), ElementsAre(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(Ints("user.id", 1), ElementsAre(9007199254740993));  // no double has it
  EXPECT_EQ(Bytes("user.name", 0), "Zo\xc3\xab \xf0\x9f\x98\x80\n");
  EXPECT_EQ(Bytes("user.name", 1), "");
  EXPECT_THAT(Floats("box", 0), ElementsAre(1, 2.5f, -0.0f, 1e-3f));
  EXPECT_EQ(run_->Get("box").at(0).shape, (Shape{2, 2}));
  EXPECT_THAT(Ints("ids", 0), ElementsAre(1, 2, 3));
  EXPECT_EQ(run_->Get("ids").at(1).shape, (Shape{0}));
  EXPECT_THAT(Ints("ok", 0), ElementsAre(1));
  EXPECT_THAT(Ints("ok", 1), ElementsAre(0));
}

TEST_F(ParseJsonTest, APathMayBeOneKeyToo) {
  ParseAs({Want("a.b", DType::kI64)}, {R"({"a.b":1})", R"({"a":{"b":2}})"});
  EXPECT_THAT(Ints("a.b", 0), ElementsAre(1));
  EXPECT_THAT(Ints("a.b", 1), ElementsAre(2));
}

// S-PARSE-2, S-PARSE-4.
TEST_F(ParseJsonTest, NullAndAbsentAreMissing) {
  FeatureSpec x = Want("a.x", DType::kI64, {2});
  x.has_default = true;
  x.default_int = 7;
  ParseAs({x, Want("ids", DType::kI64, {-1})},
          {R"({"a":{"x":null}})", R"({"a":{}})", R"({"a":null,"ids":null})", R"({"a":3})", "{}"});
  for (int64_t row = 0; row < 5; ++row) {
    ASSERT_TRUE(run_->ok(row)) << run_->status(row);
    EXPECT_THAT(Ints("a.x", row), ElementsAre(7, 7));
    EXPECT_EQ(run_->Get("ids").at(row).shape, (Shape{0}));
  }
  ExpectAll(Want("x", DType::kI64), {"{}", R"({"x":null})"}, RecordErrorReason::kFeature);
}

TEST_F(ParseJsonTest, OtherValuesThanDeclaredAreFeatureErrors) {
  const auto feature = RecordErrorReason::kFeature;
  ExpectAll(Want("x", DType::kI64), {R"({"x":1.0})", R"({"x":1e2})", R"({"x":1.5})"}, feature);
  ExpectAll(Want("x", DType::kI64), {R"({"x":9223372036854775808})"}, feature);
  ExpectAll(Want("x", DType::kF32), {R"({"x":1e40})"}, feature);
  ExpectAll(Want("x", DType::kI64), {R"({"x":"1"})", R"({"x":[1]})", R"({"x":{}})"}, feature);
  ExpectAll(Want("x", DType::kBytes), {R"({"x":1})", R"({"x":["a"]})"}, feature);
  ExpectAll(Want("x", DType::kI64, {2}), {R"({"x":1})"}, feature);
  ExpectAll(Want("x", DType::kI64, {2}), {R"({"x":[1]})"}, feature);
  ExpectAll(Want("x", DType::kI64, {2}), {R"({"x":[1,2,3]})"}, feature);
  ExpectAll(Want("x", DType::kI64, {-1, 2}), {R"({"x":[[1,2],[3]]})"}, feature);
  ExpectAll(Want("x", DType::kI64, {-1}), {R"({"x":[1,null]})"}, feature);
  ExpectAll(Want("x", DType::kI64), {R"({"x":1,"x":1})"}, feature);
}

TEST_F(ParseJsonTest, KeysThatAreNotWantedMayRepeat) {
  ParseAs({Want("x", DType::kI64)}, {R"({"y":1,"y":2,"x":3})"});
  EXPECT_THAT(Ints("x"), ElementsAre(3));
}

TEST_F(ParseJsonTest, WhatIsNoJsonIsDamage) {
  std::string deep = R"({"x":1,"y":)";
  for (int i = 0; i < 64; ++i) deep += '[';
  for (int i = 0; i < 64; ++i) deep += ']';
  ExpectAll(Want("x", DType::kI64),
            {"",
             "[]",
             "1",
             "{",
             R"({"x":1)",
             R"({"x":1,})",
             R"({"x":1}})",
             R"({"x" 1})",
             R"({x:1})",
             R"({"x":01})",
             R"({"x":1.})",
             R"({"x":-})",
             R"({"x":1e})",
             R"({"x":1,"y":nul})",
             R"({"x":1,"y":"\q"})",
             R"({"x":1,"y":"\ud800"})",
             R"({"x":1,"y":"\udc00\ud800"})",
             R"({"x":1,"y":"\u12g4"})",
             "{\"x\":1,\"y\":\"\n\"}",
             "{\"x\":1,\"y\":\"\xff\"}",
             R"({"x":1,"y":NaN})",
             R"({"x":1,"y":[1 2]})",
             deep + "}"},
            RecordErrorReason::kExample);
}

TEST_F(ParseJsonTest, NestingUpToTheLimitIsRead) {
  std::string deep = R"({"x":1,"y":)";
  for (int i = 0; i < 63; ++i) deep += '[';
  for (int i = 0; i < 63; ++i) deep += ']';
  ParseAs({Want("x", DType::kI64)}, {deep + "}"});
  EXPECT_TRUE(run_->ok(0)) << run_->status(0);
}

TEST_F(ParseJsonTest, EscapesTakeNoMoreMemoryThanTheyHaveBytes) {
  std::string record = R"({"x":1,"y":[)";
  for (int i = 0; i < 20000; ++i) record += R"("\\",)";
  ParseAs({Want("x", DType::kI64)}, {record + R"("\\"]})"});
  EXPECT_TRUE(run_->ok(0)) << run_->status(0);
  EXPECT_LT(arena_.capacity_bytes(), size_t{4} << 20);  // 64 bytes each, its alignment
}

// Whether a record is JSON at all, nlohmann's parser says.
TEST_F(ParseJsonTest, DamagedRecordsAreJudgedAsAnotherParserDoes) {
  const std::string whole =
      R"({"x":-12.5e1,"s":"a\u00e9\"b\ud83d\ude00","n":[1,[true,null,{"k":"v"}]],"o":{"p":0}})";
  FeatureSpec x = Want("x", DType::kF32);
  ParseAs({x, Want("s", DType::kBytes)}, Damaged(whole, "{}[]\",:\\u0de1.-ntf ", 3000));
  int good = 0;
  for (int64_t row = 0; row < run_->num_rows(); ++row) {
    const std::string& record = records_[static_cast<size_t>(row)];
    const auto json = nlohmann::json::parse(record, nullptr, /*allow_exceptions=*/false);
    const bool is_json = json.is_object();
    if (run_->ok(row)) {
      ++good;
      ASSERT_TRUE(is_json) << record;
      EXPECT_EQ(Bytes("s", row), json["s"].get<std::string>());
      EXPECT_EQ(Floats("x", row)[0], json["x"].is_boolean()
                                         ? static_cast<float>(json["x"].get<bool>())
                                         : json["x"].get<float>());
    } else if (run_->status(row).code() == absl::StatusCode::kDataLoss) {
      // Out of the range of a double is damage to nlohmann's, not to us.
      EXPECT_FALSE(is_json) << record << run_->status(row);
    }
  }
  EXPECT_GT(good, 200);
}

}  // namespace
}  // namespace millrace::readers
