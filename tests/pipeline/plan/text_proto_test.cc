#include "pipeline/text_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "pipeline/pipeline.pb.h"
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

std::string ErrorOf(const std::string& text, const Vars& variables = {}) {
  proto::Pipeline pipeline;
  const auto locations = ParseTextProto(text, "p", variables, &pipeline);
  EXPECT_EQ(locations.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(locations.status().message());
}

TEST(TextProtoTest, CommentsCrlfAndByteOrderMarkAreFine) {
  const auto pipeline = Parse("\xEF\xBB\xBF# a plan\r\nname: \"x\" # ${UNSET} $$\r\nseed: 7\r\n");
  EXPECT_EQ(pipeline.name(), "x");
  EXPECT_EQ(pipeline.seed(), 7u);
}

TEST(TextProtoTest, MisspeltFieldIsNamedAtItsPlace) {
  EXPECT_EQ(ErrorOf("name: \"x\"\n  sead: 3\n"),
            "p:2:3: \"sead\" is not a field of Pipeline; did you mean \"seed\"?");
}

TEST(TextProtoTest, MisspeltOpIsNamedAtItsPlace) {
  EXPECT_EQ(ErrorOf("stage { tfrecord {} }\nstage {\n  decod_image {\n    channels: 1\n  }\n}\n"),
            "p:3:3: \"decod_image\" is not a field of Stage; did you mean \"decode_image\"?");
}

TEST(TextProtoTest, MisspeltEnumValueIsNamedAtItsPlace) {
  EXPECT_EQ(ErrorOf("stage { cast { field: \"x\"\n dtype: FLOAT23 } }"),
            "p:2:9: \"FLOAT23\" is not a value of dtype; did you mean \"FLOAT32\"?");
  EXPECT_EQ(ErrorOf("stage { cast { dtype: float32 } }"),
            "p:1:23: \"float32\" is not a value of dtype; did you mean \"FLOAT32\"?");
}

TEST(TextProtoTest, UnknownEnumNumberIsAnError) {
  EXPECT_EQ(ErrorOf("stage { cast { dtype: 99 } }"), "p:1:16: 99 is not a value of dtype");
}

TEST(TextProtoTest, FarFetchedNameListsWhatThereIs) {
  EXPECT_EQ(ErrorOf("bogus_thing: 3"),
            "p:1:1: \"bogus_thing\" is not a field of Pipeline; there is: name, stage, seed, "
            "semantics_version, lanes, on_damage");
}

TEST(TextProtoTest, AllMisspeltFieldsAreReportedAtOnce) {
  const std::string error = ErrorOf("nam: \"x\"\nsead: 3\nstage { nme: \"y\" }\n");
  EXPECT_THAT(error, HasSubstr("p:1:1: \"nam\""));
  EXPECT_THAT(error, HasSubstr("\np:2:1: \"sead\""));
  EXPECT_THAT(error, HasSubstr("\np:3:9: \"nme\" is not a field of Stage; did you mean \"name\"?"));
}

TEST(TextProtoTest, ManyErrorsAreCutShort) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "zz" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(ErrorOf(text), HasSubstr("\np: and 12 more errors"));
}

// S-PLAN-10.
TEST(TextProtoTest, TabsCountAsOneColumn) {
  EXPECT_THAT(ErrorOf("stage {\n\t\tnme: \"x\"\n}"), StartsWith("p:2:3: "));
}

// S-PLAN-10.
TEST(TextProtoTest, ColumnsCountCharactersNotBytes) {
  EXPECT_THAT(ErrorOf("name: \"\xC3\xA4\xC3\xB6\" sead: 3"), StartsWith("p:1:12: \"sead\""));
}

TEST(TextProtoTest, WrongTypeIsNamedAtItsPlace) {
  EXPECT_THAT(ErrorOf("seed: \"x\""), StartsWith("p:1:7: "));
  EXPECT_THAT(ErrorOf("seed: -1"), StartsWith("p:1:7: "));
  EXPECT_THAT(ErrorOf("seed: 99999999999999999999999"), StartsWith("p:1:7: "));
}

TEST(TextProtoTest, SecondOpInAStageIsAnError) {
  EXPECT_THAT(ErrorOf("stage {\n flip {}\n batch { size: 3 }\n}"), HasSubstr("p:3:"));
}

TEST(TextProtoTest, UnclosedTextIsAnErrorNotACrash) {
  for (const char* text : {"stage {", "name: \"x", "name: '", "stage { flip <", "\"", "{", "}",
                           "name: \"\\", "stage { name: ", "${", "$", "[", "name: \"${"}) {
    EXPECT_THAT(ErrorOf(text), StartsWith("p:1:")) << text;
  }
}

// S-PLAN-9.
TEST(TextProtoTest, DeepNestingIsAnErrorNotAStackOverflow) {
  std::string text;
  for (int i = 0; i < 1000000; ++i) text += "a{";
  EXPECT_EQ(ErrorOf(text), "p:1:130: more than 64 brackets are open");
}

// S-PLAN-9.
TEST(TextProtoTest, HugeTextIsRefused) {
  EXPECT_EQ(ErrorOf(std::string(kMaxTextProtoBytes + 1, ' ')), "p: longer than 16 MiB");
}

// S-PLAN-9.
TEST(TextProtoTest, StringThatIsNotUtf8IsAnError) {
  EXPECT_EQ(ErrorOf("seed: 1\nname: \"\\xff\""), "p:2:1: name is not UTF-8 text");
  EXPECT_EQ(ErrorOf("name: \"\xC3\""), "p:1:1: name is not UTF-8 text");
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
  EXPECT_THAT(ErrorOf("seed: ${MILLRACE_TEST_VARIABLE}"), HasSubstr("is not set"));
}

// S-PLAN-8.
TEST(TextProtoTest, UnsetVariableNamesItsPlaceAndTheNearest) {
  EXPECT_EQ(ErrorOf("seed: 1\nname: \"${DATA}\"", {{"DAT", "x"}}),
            "p:2:8: variable DATA is not set (DAT is; is one of them misspelt?); set it with --var "
            "DATA=VALUE");
}

// S-PLAN-8.
TEST(TextProtoTest, UnusedVariableIsAnErrorUnlessTheCallerCollects) {
  EXPECT_EQ(ErrorOf("name: \"${DATA}\"", {{"DATA", "x"}, {"DATB", "y"}}),
            "p: variable DATB is given but never used; did you mean \"DATA\"?");
  proto::Pipeline pipeline;
  std::set<std::string> used;
  const Vars variables = {{"DATA", "x"}, {"BATCH", "y"}};
  ASSERT_TRUE(ParseTextProto("name: \"${DATA}\"", "p", variables, &pipeline, &used).ok());
  EXPECT_THAT(used, ::testing::ElementsAre("DATA"));
  EXPECT_EQ(CheckVariablesUsed(variables, used).message(),
            "variable BATCH is given but never used; there is: DATA");
}

// S-PLAN-6, S-PLAN-8.
TEST(TextProtoTest, VariableInACommentDoesNotCountAsUsed) {
  EXPECT_EQ(ErrorOf("# ${A}\n", {{"A", "x"}}), "p: variable A is given but never used");
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
    EXPECT_THAT(ErrorOf("\nseed: ${N}", {{"N", value}}), StartsWith("p:2:7: the value of N"))
        << value;
  }
  proto::Pipeline pipeline;
  for (const char* value : {"1", "-1.5e-3", ".5", "inf", "-inf", "1e+9", "7"}) {
    EXPECT_TRUE(
        ParseTextProto("stage { cast { scale: ${N} } }", "p", {{"N", value}}, &pipeline).ok())
        << value;
  }
}

TEST(TextProtoTest, BadVariableNamesAreErrors) {
  EXPECT_THAT(ErrorOf("name: \"${}\""), StartsWith("p:1:8: \"\" is not a variable's name"));
  EXPECT_THAT(ErrorOf("name: \"${a b}\""), StartsWith("p:1:8: "));
  EXPECT_THAT(ErrorOf("name: \"${A\n}\""), StartsWith("p:1:8: \"${\" without \"}\""));
}

// S-PLAN-10.
TEST(TextProtoTest, PlacesBehindASubstitutionAreThoseOfTheFile) {
  const Vars variables = {{"A", "a value that is rather long\nand has a second line"}};
  EXPECT_THAT(ErrorOf("name: \"${A}\" sead: 3", variables), StartsWith("p:1:14: \"sead\""));
  EXPECT_THAT(ErrorOf("name: \"$$\" sead: 3"), StartsWith("p:1:12: \"sead\""));
  EXPECT_THAT(ErrorOf("stage { cast { dtype: ${A} } }", {{"A", "FLOTA32"}}),
              StartsWith("p:1:23: \"FLOTA32\""));
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
  EXPECT_EQ(LoadTextProto(path, {}, &pipeline).status().message(),
            path + ":2:1: \"nme\" is not a field of Pipeline; did you mean \"name\"?");
}

TEST(TextProtoTest, MissingFileAndFolderAreNamed) {
  proto::Pipeline pipeline;
  const auto missing = LoadTextProto("/no/such/file", {}, &pipeline);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/no/such/file"));
  EXPECT_FALSE(LoadTextProto(testing::TempDir(), {}, &pipeline).ok());
}

}  // namespace
}  // namespace millrace::pipeline
