#include "augment/token_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include "augment/vocabulary.h"
#include "base/record_error.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"
#include "tests/temp_folder.h"

namespace millrace::augment {
namespace {

using ::testing::ElementsAre;
using testing::ResolveAndApply;
using testing::TestRun;
using Truncate = PadTokensOptions::Truncate;

class VocabularyTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& bytes) const {
    const std::string path = folder_.path() + "/vocab.txt";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  absl::Status LoadError(const std::string& bytes) const {
    return Vocabulary::Load(Write(bytes)).status();
  }
  // The ids of one text per row, which must all be good.
  std::vector<std::vector<int64_t>> Ids(const VocabularyOptions& options,
                                        const std::vector<std::string>& texts) const {
    auto op = MakeVocabulary(options);
    EXPECT_TRUE(op.ok()) << op.status();
    if (!op.ok()) return {};
    TestRun run(std::ssize(texts));
    run.AddBytes("text", texts);
    const Schema out = ResolveAndApply(**op, kText, *run);
    EXPECT_EQ(out.Find("text")->shape, options.split ? Shape{Shape::kUnknown} : Shape());
    std::vector<std::vector<int64_t>> ids;
    for (int64_t row = 0; row < run->num_rows(); ++row) {
      EXPECT_TRUE(run->ok(row)) << run->status(row);
      const auto values = run->Get("text").at(row).as<int64_t>();
      ids.emplace_back(values.begin(), values.end());
    }
    return ids;
  }

  const Schema kText = Schema({{"text", DType::kBytes, {Shape::kUnknown}}});
  TempFolder folder_;
};

// S-FIELD-4.
TEST_F(VocabularyTest, TokensAreNumberedByLine) {
  const auto vocabulary = Vocabulary::Load(Write("zero\r\none two\n\n\xff\nlast"));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->size(), 5);
  EXPECT_EQ(vocabulary->Find("zero"), 0);
  EXPECT_EQ(vocabulary->Find("one two"), 1);
  EXPECT_EQ(vocabulary->Find(""), 2);
  EXPECT_EQ(vocabulary->Find("\xff"), 3);
  EXPECT_EQ(vocabulary->Find("last"), 4);
  EXPECT_EQ(vocabulary->Find("la"), -1);
}

TEST_F(VocabularyTest, TheDigestIsThatOfTheBytes) {
  const auto digest = [this](const std::string& bytes) {
    return Vocabulary::Load(Write(bytes))->digest();
  };
  EXPECT_EQ(digest("a\nb\n"), digest("a\nb\n"));
  EXPECT_NE(digest("a\nb\n"), digest("b\na\n"));
  EXPECT_NE(digest("a\nb\n"), digest("a\nb"));
}

TEST_F(VocabularyTest, FilesThatAreNoneAreRefusedByLine) {
  EXPECT_MESSAGE(LoadError(""));
  EXPECT_MESSAGE(LoadError("a\nb\r\na\n"));
  EXPECT_MESSAGE(LoadError("a\n\n\n"));
  EXPECT_MESSAGE(LoadError("a\n" + std::string(4097, 'x')));
  EXPECT_TRUE(Vocabulary::Load(Write(std::string(4096, 'x') + "\r\n")).ok());
  EXPECT_EQ(Vocabulary::Load(folder_.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(Vocabulary::Load(folder_.path()).status());
}

TEST_F(VocabularyTest, AFileHasSoManyTokensAtMost) {
  const std::string file = Write("a\nb\nc");
  EXPECT_TRUE(Vocabulary::Load(file, 3).ok());
  const absl::Status status = Vocabulary::Load(file, 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(status);
}

TEST_F(VocabularyTest, AnOpTakesTheVocabularyThatItIsGiven) {
  const std::string file = Write("a\nb\n");
  const auto loaded = std::make_shared<const Vocabulary>(*Vocabulary::Load(file));
  std::filesystem::remove(file);
  EXPECT_THAT(Ids({.fields = {"text"}, .file = file, .digest = loaded->digest(), .loaded = loaded},
                  {"b", "a"}),
              ElementsAre(ElementsAre(1), ElementsAre(0)));
}

TEST_F(VocabularyTest, UnknownTokensGetTheDefaultId) {
  const std::string file = Write("a\nb\n");
  EXPECT_THAT(Ids({.fields = {"text"}, .file = file, .default_id = -1}, {"b", "c", "a", "a b", ""}),
              ElementsAre(ElementsAre(1), ElementsAre(-1), ElementsAre(0), ElementsAre(-1),
                          ElementsAre(-1)));
}

TEST_F(VocabularyTest, UnknownTokensGetABucketBehindTheLines) {
  const std::string file = Write("a\nb\n");
  std::vector<std::string> tokens = {"a"};
  for (int i = 0; i < 200; ++i) tokens.push_back("t" + std::to_string(i));
  const auto ids = Ids({.fields = {"text"}, .file = file, .oov_buckets = 3}, tokens);
  EXPECT_EQ(ids[0][0], 0);
  std::vector<int> counts(3);
  for (size_t i = 1; i < ids.size(); ++i) ++counts.at(static_cast<size_t>(ids[i][0] - 2));
  EXPECT_THAT(counts, ::testing::Each(::testing::Gt(40)));
  EXPECT_EQ(Ids({.fields = {"text"}, .file = file, .oov_buckets = 3}, tokens), ids);
}

TEST_F(VocabularyTest, TextIsSplitAtWhiteSpace) {
  const std::string file = Write("a\nb\n");
  EXPECT_THAT(Ids({.fields = {"text"}, .file = file, .default_id = 9, .split = true},
                  {"a b", "  b\t\n\v\f\r a  ", "", " \n", "b", "a\xc2\xa0"}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(1, 0), ElementsAre(), ElementsAre(),
                          ElementsAre(1), ElementsAre(9)));
}

TEST_F(VocabularyTest, TheIdsMayHaveAnotherName) {
  auto op = MakeVocabulary({.fields = {"text"}, .output = "ids", .file = Write("a\nb\n")});
  ASSERT_TRUE(op.ok());
  const std::vector<std::string> texts = {"b"};
  TestRun run(1);
  run.AddBytes("text", texts);
  EXPECT_EQ(ResolveAndApply(**op, kText, *run).fields(),
            Schema({{"ids", DType::kI64, {}}}).fields());
  EXPECT_THAT(run->Get("ids").at(0).as<int64_t>(), ElementsAre(1));
  EXPECT_EQ(run->Find("text"), nullptr);
}

TEST_F(VocabularyTest, WithoutADefaultAnUnknownTokenIsAnErrorOfItsRow) {
  auto op = MakeVocabulary({.fields = {"text"}, .file = Write("a\n"), .split = true});
  ASSERT_TRUE(op.ok());
  TestRun run(3);
  const std::vector<std::string> texts = {"a a", "a b\x01", "a"};
  run.AddBytes("text", texts);
  ResolveAndApply(**op, kText, *run);
  EXPECT_TRUE(run->ok(0) && run->ok(2));
  EXPECT_MESSAGE(run->status(1));
  EXPECT_EQ(GetRecordError(run->status(1))->reason, RecordErrorReason::kValue);
}

TEST_F(VocabularyTest, AnotherDigestIsRefused) {
  const std::string file = Write("a\n");
  const uint64_t digest = Vocabulary::Load(file)->digest();
  EXPECT_TRUE(MakeVocabulary({.fields = {"text"}, .file = file, .digest = digest}).ok());
  Write("b\n");
  const auto op = MakeVocabulary({.fields = {"text"}, .file = file, .digest = digest});
  EXPECT_EQ(op.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_MESSAGE(op.status());
}

TEST_F(VocabularyTest, OptionsAndFieldsAreChecked) {
  const std::string file = Write("a\n");
  const auto make = [](const VocabularyOptions& options) {
    return MakeVocabulary(options).status();
  };
  EXPECT_MESSAGE(make({.fields = {"x"}, .file = file, .default_id = 0, .oov_buckets = 1}));
  EXPECT_MESSAGE(make({.fields = {"x"}, .file = file, .oov_buckets = -1}));
  EXPECT_MESSAGE(make({.file = file}));
  EXPECT_MESSAGE(make({.fields = {"x", "y"}, .output = "z", .file = file}));
  auto op = MakeVocabulary({.fields = {"x"}, .file = file});
  ASSERT_TRUE(op.ok());
  EXPECT_MESSAGE((*op)->Resolve(Schema({{"x", DType::kI64, {}}})).status());
}

TEST_F(VocabularyTest, AFieldThatItDoesNotTakeIsNotReplaced) {
  auto op = MakeVocabulary({.fields = {"text"}, .output = "ids", .file = Write("a\n")});
  ASSERT_TRUE(op.ok());
  const Schema in({{"text", DType::kBytes, {Shape::kUnknown}}, {"ids", DType::kI64, {}}});
  EXPECT_MESSAGE((*op)->Resolve(in).status());
}

// Rows of 1, 4 and 6 tokens, through pad_tokens.
struct Padded {
  std::vector<std::vector<int64_t>> tokens;
  std::vector<std::vector<int64_t>> mask;
  std::vector<int64_t> lengths;
};

const std::vector<std::vector<int64_t>> kRows = {{1}, {1, 2, 3, 4}, {1, 2, 3, 4, 5, 6}, {}};

Padded Pad(PadTokensOptions options) {
  options.length = 4;
  options.mask = "mask";
  options.lengths = "lengths";
  auto op = MakePadTokens(options);
  EXPECT_TRUE(op.ok()) << op.status();
  TestRun run(std::ssize(kRows));
  Column& column = run->Add("tokens", DType::kI64);
  for (size_t row = 0; row < kRows.size(); ++row) {
    column.Set(static_cast<int64_t>(row), kRows[row].data(), {std::ssize(kRows[row])});
  }
  const Schema out =
      ResolveAndApply(**op, Schema({{"tokens", DType::kI64, {Shape::kUnknown}}}), *run);
  EXPECT_EQ(out.fields(), Schema({{"tokens", DType::kI64, {4}},
                                  {"mask", DType::kI64, {4}},
                                  {"lengths", DType::kI64, {}}})
                              .fields());
  Padded padded;
  for (int64_t row = 0; row < run->num_rows(); ++row) {
    const auto tokens = run->Get("tokens").at(row).as<int64_t>();
    const auto mask = run->Get("mask").at(row).as<int64_t>();
    padded.tokens.emplace_back(tokens.begin(), tokens.end());
    padded.mask.emplace_back(mask.begin(), mask.end());
    padded.lengths.push_back(run->Get("lengths").at(row).as<int64_t>()[0]);
  }
  return padded;
}

// S-FIELD-6.
TEST(PadTokensTest, FillsAndCutsOnTheRight) {
  const Padded padded = Pad({.value = -7});
  EXPECT_THAT(padded.tokens, ElementsAre(ElementsAre(1, -7, -7, -7), ElementsAre(1, 2, 3, 4),
                                         ElementsAre(1, 2, 3, 4), ElementsAre(-7, -7, -7, -7)));
  EXPECT_THAT(padded.mask, ElementsAre(ElementsAre(1, 0, 0, 0), ElementsAre(1, 1, 1, 1),
                                       ElementsAre(1, 1, 1, 1), ElementsAre(0, 0, 0, 0)));
  EXPECT_THAT(padded.lengths, ElementsAre(1, 4, 4, 0));
}

TEST(PadTokensTest, FillsAndCutsOnTheLeft) {
  const Padded padded = Pad({.left = true, .truncate = Truncate::kLeft});
  EXPECT_THAT(padded.tokens, ElementsAre(ElementsAre(0, 0, 0, 1), ElementsAre(1, 2, 3, 4),
                                         ElementsAre(3, 4, 5, 6), ElementsAre(0, 0, 0, 0)));
  EXPECT_THAT(padded.mask, ElementsAre(ElementsAre(0, 0, 0, 1), ElementsAre(1, 1, 1, 1),
                                       ElementsAre(1, 1, 1, 1), ElementsAre(0, 0, 0, 0)));
}

TEST(PadTokensTest, OneSideDoesNotDecideTheOther) {
  EXPECT_THAT(Pad({.left = true}).tokens[2], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Pad({.truncate = Truncate::kLeft}).tokens[0], ElementsAre(1, 0, 0, 0));
}

TEST(PadTokensTest, ALongRowCanBeAnError) {
  auto op = MakePadTokens({.length = 2, .truncate = Truncate::kNever, .mask = "mask"});
  ASSERT_TRUE(op.ok());
  const float values[] = {1, 2, 3};
  TestRun run(2);
  Column& column = run->Add("tokens", DType::kF32);
  column.Set(0, values, {3});
  column.Set(1, values, {1});
  ResolveAndApply(**op, Schema({{"tokens", DType::kF32, {Shape::kUnknown}}}), *run);
  EXPECT_MESSAGE(run->status(0));
  EXPECT_THAT(run->Get("tokens").at(1).as<float>(), ElementsAre(1, 0));
}

TEST(PadTokensTest, FieldsThatAreThereAreNotReplaced) {
  const Schema in({{"tokens", DType::kI64, {Shape::kUnknown}}, {"x", DType::kF32, {}}});
  auto mask = MakePadTokens({.length = 1, .mask = "x"});
  auto lengths = MakePadTokens({.length = 1, .lengths = "x"});
  ASSERT_TRUE(mask.ok() && lengths.ok());
  for (const auto* op : {&*mask, &*lengths}) EXPECT_MESSAGE((*op)->Resolve(in), "x");
}

TEST(PadTokensTest, OptionsAndFieldsAreChecked) {
  const auto make = [](const PadTokensOptions& options) { return MakePadTokens(options).status(); };
  EXPECT_MESSAGE(make({}));
  EXPECT_MESSAGE(make({.length = 1, .value = HUGE_VAL}));
  EXPECT_MESSAGE(make({.length = 1, .mask = "tokens"}));
  EXPECT_MESSAGE(make({.length = 1, .mask = "m", .lengths = "m"}));
  const auto resolve = [](double value, const Field& field) {
    auto op = MakePadTokens({.length = 1, .value = value});
    EXPECT_TRUE(op.ok());
    return (*op)->Resolve(Schema({field})).status();
  };
  EXPECT_MESSAGE(resolve(0.5, {"tokens", DType::kI64, {Shape::kUnknown}}));
  EXPECT_MESSAGE(resolve(3e9, {"tokens", DType::kI32, {Shape::kUnknown}}));
  EXPECT_MESSAGE(resolve(1e39, {"tokens", DType::kF32, {Shape::kUnknown}}));
  EXPECT_MESSAGE(resolve(0, {"tokens", DType::kI64, {}}));
  EXPECT_MESSAGE(resolve(0, {"tokens", DType::kBytes, {Shape::kUnknown}}));
}

}  // namespace
}  // namespace millrace::augment
