#include "pipeline/text_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "pipeline/pipeline.pb.h"
#include "tests/messages.h"
#include "tests/temp_folder.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Vars = std::map<std::string, std::string>;

proto::Pipeline Parse(const std::string& text, const Vars& variables = {}) {
  proto::Pipeline pipeline;
  const auto locations = ParseTextProto(text, "p", variables, &pipeline);
  EXPECT_TRUE(locations.ok()) << locations.status();
  return pipeline;
}

absl::Status ErrorOf(const std::string& text, const Vars& variables = {}) {
  proto::Pipeline pipeline;
  const auto locations = ParseTextProto(text, "p", variables, &pipeline);
  EXPECT_EQ(locations.status().code(), absl::StatusCode::kInvalidArgument);
  return locations.status();
}

// For messages that are libprotobuf's; only their places are this library's.
std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

TEST(TextProtoTest, CommentsCrlfAndByteOrderMarkAreFine) {
  const auto pipeline = Parse("\xEF\xBB\xBF# a plan\r\nname: \"x\" # ${UNSET} $$\r\nseed: 7\r\n");
  EXPECT_EQ(pipeline.name(), "x");
  EXPECT_EQ(pipeline.seed(), 7u);
}

TEST(TextProtoTest, MisspeltFieldIsNamedAtItsPlace) {
  EXPECT_MESSAGE(ErrorOf("name: \"x\"\n  sead: 3\n"));
}

TEST(TextProtoTest, MisspeltOpIsNamedAtItsPlace) {
  EXPECT_MESSAGE(
      ErrorOf("stage { tfrecord {} }\nstage {\n  decod_image {\n    channels: 1\n  }\n}\n"));
}

TEST(TextProtoTest, MisspeltEnumValueIsNamedAtItsPlace) {
  EXPECT_MESSAGE(ErrorOf("stage { cast { field: \"x\"\n dtype: FLOAT23 } }"));
  EXPECT_MESSAGE(ErrorOf("stage { cast { dtype: float32 } }"));
}

TEST(TextProtoTest, UnknownEnumNumberIsAnError) {
  EXPECT_MESSAGE(ErrorOf("stage { cast { dtype: 99 } }"));
}

TEST(TextProtoTest, FarFetchedNameListsWhatThereIs) { EXPECT_MESSAGE(ErrorOf("bogus_thing: 3")); }

TEST(TextProtoTest, AllMisspeltFieldsAreReportedAtOnce) {
  EXPECT_MESSAGE(ErrorOf("nam: \"x\"\nsead: 3\nstage { nme: \"y\" }\n"));
}

TEST(TextProtoTest, ManyErrorsAreCutShort) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "zz" + std::to_string(i) + ": 1\n";
  EXPECT_MESSAGE(ErrorOf(text));
}

// S-PLAN-10.
TEST(TextProtoTest, TabsCountAsOneColumn) { EXPECT_MESSAGE(ErrorOf("stage {\n\t\tnme: \"x\"\n}")); }

// S-PLAN-10.
TEST(TextProtoTest, ColumnsCountCharactersNotBytes) {
  EXPECT_MESSAGE(ErrorOf("name: \"\xC3\xA4\xC3\xB6\" sead: 3"));
}

TEST(TextProtoTest, WrongTypeIsNamedAtItsPlace) {
  EXPECT_THAT(TextOf(ErrorOf("seed: \"x\"")), StartsWith("p:1:7: "));
  EXPECT_THAT(TextOf(ErrorOf("seed: -1")), StartsWith("p:1:7: "));
  EXPECT_THAT(TextOf(ErrorOf("seed: 99999999999999999999999")), StartsWith("p:1:7: "));
}

TEST(TextProtoTest, SecondOpInAStageIsAnError) {
  EXPECT_THAT(TextOf(ErrorOf("stage {\n flip {}\n batch { size: 3 }\n}")), HasSubstr("p:3:"));
}

TEST(TextProtoTest, UnclosedTextIsAnErrorNotACrash) {
  for (const char* text : {"stage {", "name: \"x", "name: '", "stage { flip <", "\"", "{", "}",
                           "name: \"\\", "stage { name: ", "${", "$", "[", "name: \"${"}) {
    EXPECT_THAT(TextOf(ErrorOf(text)), StartsWith("p:1:")) << text;
  }
}

TEST(TextProtoTest, AnUnclosedBracketIsNamedWhereItWasOpened) {
  EXPECT_MESSAGE(ErrorOf("stage { batch { size: 3 } }\nstage { flip { }\nstage { take {} }\n"));
  EXPECT_MESSAGE(ErrorOf("stage {\n  batch {\n    size: 3\n\nstage { take {} }\n"));
  EXPECT_MESSAGE(ErrorOf("stage { # }\n  cast { field: [\"}\", '}'\n"));
  // A quote that is not closed hides brackets; the parser tells of it.
  EXPECT_THAT(TextOf(ErrorOf("stage {\n  text { files: \"x } }\n")), StartsWith("p:2:23: "));
}

TEST(TextProtoTest, ABraceTooManyIsSaidToBeThat) {
  EXPECT_MESSAGE(ErrorOf("stage { batch { size: 3 } } }\nstage { take {} }\n"));
}

// S-PLAN-9.
// S-SOURCE-11: what a page or an editor puts in for a blank is seen in the message.
TEST(TextProtoTest, ACharacterOutsideOfQuotesIsShownAtItsPlace) {
  EXPECT_MESSAGE(ErrorOf("stage {}\nstage\u00a0{}\n"));
  EXPECT_MESSAGE(ErrorOf("se\u200bed: 3"));
  EXPECT_MESSAGE(ErrorOf("name: \u201cx\u201d"));
}

TEST(TextProtoTest, DeepNestingIsAnErrorNotAStackOverflow) {
  std::string text;
  for (int i = 0; i < 1000000; ++i) text += "a{";
  EXPECT_MESSAGE(ErrorOf(text));
}

// S-PLAN-9.
TEST(TextProtoTest, HugeTextIsRefused) {
  EXPECT_MESSAGE(ErrorOf(std::string(kMaxTextProtoBytes + 1, ' ')));
}

// S-PLAN-9.
TEST(TextProtoTest, StringThatIsNotUtf8IsAnError) {
  EXPECT_MESSAGE(ErrorOf("seed: 1\nname: \"\\xff\""));
  EXPECT_MESSAGE(ErrorOf("name: \"\xC3\""));
}

// S-PLAN-6.
TEST(TextProtoTest, VariableIsSubstitutedInAndOutsideStrings) {
  const auto pipeline = Parse("name: \"a-${A}-z\" seed: ${N}", {{"A", "b/c"}, {"N", "12"}});
  EXPECT_EQ(pipeline.name(), "a-b/c-z");
  EXPECT_EQ(pipeline.seed(), 12u);
}

// S-PLAN-6.
TEST(TextProtoTest, DefaultHoldsUntilTheVariableIsSet) {
  EXPECT_EQ(Parse("seed: ${N:-5}").seed(), 5u);
  EXPECT_EQ(Parse("seed: ${N:-5}", {{"N", "6"}}).seed(), 6u);
  EXPECT_EQ(Parse("name: \"${A:-}\"").name(), "");
  EXPECT_EQ(Parse("name: \"${A:-x y:-z}\"").name(), "x y:-z");
}

// S-PLAN-6.
TEST(TextProtoTest, EnvironmentIsNeverLookedAt) {
  ASSERT_EQ(setenv("MILLRACE_TEST_VARIABLE", "5", 1), 0);
  EXPECT_MESSAGE(ErrorOf("seed: ${MILLRACE_TEST_VARIABLE}"));
}

// S-PLAN-8.
TEST(TextProtoTest, UnsetVariableNamesItsPlaceAndTheNearest) {
  EXPECT_MESSAGE(ErrorOf("seed: 1\nname: \"${DATA}\"", {{"DAT", "x"}}));
}

// S-PLAN-8.
TEST(TextProtoTest, UnusedVariableIsAnErrorUnlessTheCallerCollects) {
  EXPECT_MESSAGE(ErrorOf("name: \"${DATA}\"", {{"DATA", "x"}, {"DATB", "y"}}));
  proto::Pipeline pipeline;
  std::set<std::string> used;
  const Vars variables = {{"DATA", "x"}, {"BATCH", "y"}};
  ASSERT_TRUE(ParseTextProto("name: \"${DATA}\"", "p", variables, &pipeline, &used).ok());
  EXPECT_THAT(used, ::testing::ElementsAre("DATA"));
  EXPECT_MESSAGE(CheckVariablesUsed(variables, used));
}

TEST(TextProtoTest, VariablesWithoutAValueAreFound) {
  const TempFolder folder;
  const std::string path = folder / "plan.pbtxt";
  std::ofstream(path) << "name: \"${DATA}\" # ${COMMENT}\nseed: ${SEED:-3} lanes: ${LANES}";
  const auto named = VariablesOf(path, {{"LANES", "2"}});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(named->all, ::testing::ElementsAre("DATA", "LANES", "SEED"));
  EXPECT_THAT(named->without_value, ::testing::ElementsAre("DATA"));
  EXPECT_TRUE(absl::IsNotFound(VariablesOf(folder / "none", {}).status()));
}

// S-PLAN-6, S-PLAN-8.
TEST(TextProtoTest, VariableInACommentDoesNotCountAsUsed) {
  EXPECT_MESSAGE(ErrorOf("# ${A}\n", {{"A", "x"}}));
}

// S-PLAN-6.
TEST(TextProtoTest, DollarsEscape) {
  EXPECT_EQ(Parse("name: \"$${A} costs $5 $$$$\"").name(), "${A} costs $5 $$");
}

// S-PLAN-7.
TEST(TextProtoTest, ValueCannotBreakOutOfAString) {
  const std::string evil = "x\" seed: 9 #'\n\\";
  EXPECT_EQ(Parse("name: \"${A}\"", {{"A", evil}}).name(), evil);
  EXPECT_EQ(Parse("name: '${A}'", {{"A", evil}}).name(), evil);
  EXPECT_EQ(Parse("name: '${A}'", {{"A", evil}}).seed(), 0u);
}

// S-PLAN-7.
TEST(TextProtoTest, ValueOutsideAStringMustBeOneToken) {
  for (const char* value : {"1 seed: 2", "{}", "", "\"x\"", "1#", "a:b", "-", "1-2", ".", "1\n2"}) {
    EXPECT_MESSAGE(ErrorOf("\nseed: ${N}", {{"N", value}})) << value;
  }
  proto::Pipeline pipeline;
  for (const char* value : {"1", "-1.5e-3", ".5", "inf", "-inf", "1e+9", "7"}) {
    EXPECT_TRUE(
        ParseTextProto("stage { cast { scale: ${N} } }", "p", {{"N", value}}, &pipeline).ok())
        << value;
  }
}

TEST(TextProtoTest, BadVariableNamesAreErrors) {
  EXPECT_MESSAGE(ErrorOf("name: \"${}\""));
  EXPECT_MESSAGE(ErrorOf("name: \"${a b}\""));
  EXPECT_MESSAGE(ErrorOf("name: \"${A\n}\""));
}

// S-PLAN-10.
TEST(TextProtoTest, PlacesBehindASubstitutionAreThoseOfTheFile) {
  const Vars variables = {{"A", "a value that is rather long\nand has a second line"}};
  EXPECT_MESSAGE(ErrorOf("name: \"${A}\" sead: 3", variables));
  EXPECT_MESSAGE(ErrorOf("name: \"$$\" sead: 3"));
  EXPECT_MESSAGE(ErrorOf("stage { cast { dtype: ${A} } }", {{"A", "FLOTA32"}}));
}

TEST(TextProtoTest, LocationsFindFieldsAndFallBackToWhatEncloses) {
  proto::Pipeline pipeline;
  const auto at =
      ParseTextProto("seed: 1\nstage {\n  tfrecord { files: [\"a\", \"b\"] }\n}\nstage { flip {} }",
                     "dir/p", {}, &pipeline);
  ASSERT_TRUE(at.ok()) << at.status();
  EXPECT_EQ(at->At({}), "dir/p");
  EXPECT_EQ(at->At({{"seed"}}), "dir/p:1:1");
  EXPECT_EQ(at->At({{"stage", 1}}), "dir/p:5:1");
  EXPECT_EQ(at->At({{"stage", 0}, {"tfrecord"}, {"files", 1}}), "dir/p:3:14");
  EXPECT_EQ(at->At({{"stage", 1}, {"flip"}, {"field"}}), "dir/p:5:9");
  EXPECT_EQ(at->At({{"stage", 7}}), "dir/p:2:1");
  EXPECT_EQ(at->At({{"no_such_field"}}), "dir/p");
}

TEST(TextProtoTest, LocationsFindFieldsOfPipelinesInPipelines) {
  proto::Pipeline pipeline;
  const auto at = ParseTextProto(
      "stage {\n mix {\n  input { stage { range { count: 1 } } }\n"
      "  input {\n   stage { tfrecord { files: \"a\" } }\n   stage { take { count: 3 } } } } }",
      "p", {}, &pipeline);
  ASSERT_TRUE(at.ok()) << at.status();
  const FieldStep stage = {"stage", 0};
  EXPECT_EQ(at->At({stage, {"mix"}, {"input", 1}}), "p:4:3");
  EXPECT_EQ(at->At({stage, {"mix"}, {"input", 1}, {"stage", 1}, {"take"}, {"count"}}), "p:6:19");
  EXPECT_EQ(at->At({stage, {"mix"}, {"input", 0}, {"seed"}}), "p:3:3");
}

TEST(TextProtoTest, FileIsReadAndNamed) {
  const TempFolder folder;
  const std::string path = folder / "plan.pbtxt";
  std::ofstream(path) << "seed: 4\nnme: \"x\"";
  proto::Pipeline pipeline;
  EXPECT_MESSAGE(LoadTextProto(path, {}, &pipeline).status());
}

TEST(TextProtoTest, MissingFileAndFolderAreNamed) {
  proto::Pipeline pipeline;
  const auto missing = LoadTextProto("/no/such/file", {}, &pipeline);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(missing.status());
  EXPECT_FALSE(LoadTextProto(testing::TempDir(), {}, &pipeline).ok());
}

}  // namespace
}  // namespace millrace::pipeline
