#include <cmath>
#include <cstdlib>
#include <limits>

#include "readers/text/number_text.h"
#include "tests/messages.h"
#include "tests/readers/text/parse_fields_fixture.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;

class ParseCsvTest : public ParseFieldsTest {
 protected:
  static ParseFieldsOptions Csv(std::vector<FeatureSpec> features) {
    return {RecordFormat::kCsv, std::move(features), "record", {"id", "name", "score"}, ','};
  }
  static ParseFieldsOptions All() {
    return Csv({Want("score", DType::kF32), Want("id", DType::kI64), Want("name", DType::kBytes)});
  }
};

// S-PARSE-3.
TEST_F(ParseCsvTest, CellsBecomeColumnsByTheirNames) {
  Parse(All(), {"1,ann,0.5", "-2,\"b,\"\"o\"\"\nb\",1e3\r\n", " +3 ,\"\", nan \n"});
  ASSERT_TRUE(run_->all_ok()) << run_->status(0) << run_->status(1) << run_->status(2);
  EXPECT_THAT(Ints("id", 0), ElementsAre(1));
  EXPECT_THAT(Ints("id", 1), ElementsAre(-2));
  EXPECT_THAT(Ints("id", 2), ElementsAre(3));
  EXPECT_EQ(Bytes("name", 0), "ann");
  EXPECT_EQ(Bytes("name", 1), "b,\"o\"\nb");
  EXPECT_EQ(Bytes("name", 2), "");
  EXPECT_THAT(Floats("score", 1), ElementsAre(1000));
  EXPECT_TRUE(std::isnan(Floats("score", 2)[0]));
  EXPECT_EQ(run_->Find("record"), nullptr);
}

TEST_F(ParseCsvTest, ColumnsThatNobodyAsksForAreNotParsed) {
  Parse(Csv({Want("id", DType::kI64)}), {"7,\"x\",not a number"});
  ASSERT_TRUE(run_->all_ok()) << run_->status(0);
  EXPECT_THAT(Ints("id"), ElementsAre(7));
}

TEST_F(ParseCsvTest, AnotherDelimiterMayStandBetweenCells) {
  ParseFieldsOptions options = All();
  options.delimiter = '\t';
  Parse(options, {"1\ta,b\t2", "1\t\t2"});
  EXPECT_EQ(Bytes("name", 0), "a,b");
  EXPECT_MESSAGE(Failure(1, RecordErrorReason::kFeature));
}

// S-PARSE-2, S-PARSE-3.
TEST_F(ParseCsvTest, AnEmptyCellIsMissingAndEmptyQuotesAreAString) {
  FeatureSpec id = Want("id", DType::kI64);
  id.has_default = true;
  id.default_int = -1;
  FeatureSpec name = Want("name", DType::kBytes);
  name.has_default = true;
  name.default_bytes = "nobody";
  Parse(Csv({id, name, Want("score", DType::kF32)}), {"  ,,1", "5,\"\",1", "5,x,", "\"\",x,1"});
  EXPECT_THAT(Ints("id", 0), ElementsAre(-1));
  EXPECT_EQ(Bytes("name", 0), "nobody");
  EXPECT_EQ(Bytes("name", 1), "");
  EXPECT_MESSAGE(Failure(2, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(3, RecordErrorReason::kFeature));
}

TEST_F(ParseCsvTest, ErrorsNameTheColumnAndTheText) {
  Parse(All(), {"1x,a,1", "1,a,1..5", "9223372036854775808,a,1", "1,a,1e39", "1,a", "1,a,2,3", ""});
  EXPECT_MESSAGE(Failure(0, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(1, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(2, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(3, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(4, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(5, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(6, RecordErrorReason::kFeature));
}

TEST_F(ParseCsvTest, BadQuotesAndSecondRowsAreDamage) {
  Parse(All(), {"1,\"a,2", "1,a\"b,2", "1,\"a\"b,2", "1,a,2\n3,b,4", "1,a,2\n\n"});
  EXPECT_MESSAGE(Failure(0, RecordErrorReason::kExample));
  EXPECT_MESSAGE(Failure(1, RecordErrorReason::kExample));
  EXPECT_MESSAGE(Failure(2, RecordErrorReason::kExample));
  EXPECT_MESSAGE(Failure(3, RecordErrorReason::kExample));
  EXPECT_MESSAGE(Failure(4, RecordErrorReason::kExample));
}

TEST_F(ParseCsvTest, WhatIsQuotedComesBack) {
  std::mt19937_64 random(3);
  std::vector<std::string> texts;
  std::vector<std::string> rows;
  for (int i = 0; i < 500; ++i) {
    std::string text;
    std::string quoted = "\"";
    for (uint64_t n = random() % 12; n > 0; --n) {
      text += "\",\n\rab\xff"[random() % 7];
      quoted += text.back() == '"' ? "\"\"" : std::string(1, text.back());
    }
    texts.push_back(text);
    rows.push_back("1," + quoted + "\",2");
  }
  Parse(All(), rows);
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSERT_TRUE(run_->ok(static_cast<int64_t>(i))) << run_->status(static_cast<int64_t>(i));
    EXPECT_EQ(Bytes("name", static_cast<int64_t>(i)), texts[i]);
  }
}

TEST_F(ParseCsvTest, DamagedRowsAreAnErrorOrOtherValues) {
  Parse(All(), Damaged("12,\"na\"\"me\",3.5\r\n", "\",\n\r01 .e", 2000));
  int64_t good = 0;
  for (int64_t row = 0; row < run_->num_rows(); ++row) {
    if (!run_->ok(row)) continue;
    ++good;
    EXPECT_EQ(Ints("id", row).size(), 1u);
    EXPECT_LE(Bytes("name", row).size(), records_[static_cast<size_t>(row)].size());
  }
  EXPECT_GT(good, 100);
  EXPECT_LT(good, 1900);
}

// S-PARSE-1. strtof and strtoll say what the numbers are.
TEST(NumberText, IsWhatTheCLibraryReads) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string text(1, "+-0"[random() % 3]);
    for (uint64_t n = 1 + random() % 12; n > 0; --n) text += "0123456789"[random() % 10];
    int64_t number = 0;
    ASSERT_EQ(internal::ParseInt(text, &number), nullptr) << text;
    EXPECT_EQ(number, std::strtoll(text.c_str(), nullptr, 10));
    if (random() % 2 == 0) text.insert(1 + random() % text.size(), ".");
    if (random() % 2 == 0) text += "e" + std::to_string(static_cast<int>(random() % 110) - 60);
    float real = 0;
    const char* const wrong = internal::ParseFloat(text, &real);
    const float expected = std::strtof(text.c_str(), nullptr);
    if (std::isinf(expected)) {
      EXPECT_STREQ(wrong, "is out of the range of float32") << text;
    } else {
      ASSERT_EQ(wrong, nullptr) << text;
      EXPECT_EQ(real, expected) << text;
    }
  }
}

TEST(NumberText, OtherTextsAreNoNumbers) {
  int64_t number = 0;
  float real = 0;
  for (const char* text : {"", " 1", "1 ", "+", "-", "+-1", "++1", "0x10", "1,5", "one", "1.0.0"}) {
    EXPECT_NE(internal::ParseInt(text, &number), nullptr) << text;
    EXPECT_NE(internal::ParseFloat(text, &real), nullptr) << text;
  }
  EXPECT_NE(internal::ParseInt("1.0", &number), nullptr);
  EXPECT_EQ(internal::ParseInt("-9223372036854775808", &number), nullptr);
  EXPECT_EQ(number, std::numeric_limits<int64_t>::min());
  const std::string zeros(400, '0');
  for (const std::string& tiny :
       {std::string("1e-60"), std::string("1e-400"), std::string("-1e-99999999999999999999"),
        "0." + zeros + "1", "0." + zeros + "1e2", "123" + zeros + "e-900"}) {  // S-PARSE-1.
    EXPECT_EQ(internal::ParseFloat(tiny, &real), nullptr) << tiny;
    EXPECT_EQ(real, 0) << tiny;
    EXPECT_EQ(std::signbit(real), tiny[0] == '-') << tiny;
  }
  for (const std::string& huge :
       {std::string("1e39"), std::string("1e400"), std::string("+1e99999999999999999999"),
        "1" + zeros, "0." + zeros + "1e900"}) {
    EXPECT_NE(internal::ParseFloat(huge, &real), nullptr) << huge;
  }
  EXPECT_EQ(internal::ParseFloat("-inf", &real), nullptr);
  EXPECT_TRUE(std::isinf(real));
}

TEST(ParseCsvOptions, MustFit) {
  const auto error = [](std::vector<FeatureSpec> features, char delimiter = ',') {
    const auto op = MakeParseFields(
        {RecordFormat::kCsv, std::move(features), "record", {"age", "size", "size"}, delimiter});
    EXPECT_EQ(op.status().code(), absl::StatusCode::kInvalidArgument);
    return op.status();
  };
  EXPECT_MESSAGE(error({Want("agee", DType::kI64)}));
  EXPECT_MESSAGE(error({Want("size", DType::kI64)}));
  EXPECT_MESSAGE(error({Want("age", DType::kI64, {2})}));
  EXPECT_MESSAGE(error({Want("age", DType::kI64)}, '"'));
  EXPECT_MESSAGE(error({}));
}

}  // namespace
}  // namespace millrace::readers
