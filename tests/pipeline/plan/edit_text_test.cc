#include "pipeline/edit_text.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "pipeline/plan/message.h"
#include "tests/messages.h"

namespace millrace::pipeline {
namespace {

using FieldChanges = std::vector<FieldChange>;

absl::StatusOr<EditedText> EditedPerformance(
    const std::string& text, const FieldChanges& changes,
    const std::map<std::string, std::string>& variables = {}, const std::string& title = "") {
  return EditFields(text, "file", variables, changes, proto::Performance(), title);
}

TEST(EditTextTest, FieldsThatAreThereGetTheValueAndACommentAndOthersComeBehind) {
  const auto edited = EditedPerformance("# Mine.\nthreads: 2  # two\nio_threads: 3\n",
                                        {{"threads", 4, "was 2"}, {"run_us", 9, "was 5"}});
  ASSERT_TRUE(edited.ok()) << edited.status();
  EXPECT_EQ(edited->text, "# Mine.\nthreads: 4  # two; was 2\nio_threads: 3\nrun_us: 9  # was 5\n");
}

TEST(EditTextTest, ATitleComesBeforeTheFirstFieldThatIsNew) {
  const FieldChanges changes = {{"threads", 4, ""}, {"run_us", 9, ""}};
  const auto edited = EditedPerformance("io_threads: 3", changes, {}, "tuned");
  ASSERT_TRUE(edited.ok()) << edited.status();
  EXPECT_EQ(edited->text, "io_threads: 3\n# tuned\nthreads: 4\nrun_us: 9\n");
  const auto none_new = EditedPerformance("threads: 3\nrun_us: 1\n", changes, {}, "tuned");
  ASSERT_TRUE(none_new.ok()) << none_new.status();
  EXPECT_EQ(none_new->text, "threads: 4\nrun_us: 9\n");
}

TEST(EditTextTest, VariablesOfOtherFilesAreLeftAlone) {
  const std::map<std::string, std::string> given = {{"N", "3"}, {"OTHER", "x"}};
  const auto edited = EditedPerformance("threads: ${N}", {{"threads", 4, "was 3"}}, given);
  ASSERT_TRUE(edited.ok()) << edited.status();
  EXPECT_EQ(edited->text, "threads: ${N}");
  EXPECT_EQ(edited->variables.at("N"), "4");
  EXPECT_EQ(edited->variables.at("OTHER"), "x");
  EXPECT_MESSAGE(EditedPerformance("threads: ${N} run_us: ${N}", {{"threads", 4, "was 3"}}, given),
                 absl::StatusCode::kFailedPrecondition);
}

TEST(EditTextTest, TextsGetTheValueAndAComment) {
  const auto edited = [](const std::string& text,
                         const std::map<std::string, std::string>& given = {}) {
    const FieldChange change = {.field = "name", .comment = "was a", .text = "b \"2\""};
    return EditFields(text, "file", given, FieldChanges{change}, proto::Pipeline());
  };
  const auto there = edited("seed: 1\nname: 'a' # mine\n  \"\"  # more\n");
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->text, "seed: 1\nname: \"b \\\"2\\\"\"  # more; was a\n");
  const auto not_there = edited("seed: 1");
  ASSERT_TRUE(not_there.ok()) << not_there.status();
  EXPECT_EQ(not_there->text, "seed: 1\nname: \"b \\\"2\\\"\"  # was a\n");
  for (const std::string text : {"name: \"${A}\"", "name: \"x${A:-1}y\"", "name: 'x' '${A:-1}'"}) {
    EXPECT_MESSAGE(edited(text, {{"A", "a"}}), absl::StatusCode::kFailedPrecondition, "variable");
  }
}

TEST(EditTextTest, OnlyFieldsOfTheMessageItselfAreChanged) {
  const std::string text = "seed: 1 stage { range { count: 9 } }";
  const auto edited = [&](const std::string& field) {
    return EditFields(text, "file", {}, FieldChanges{{field, 4, ""}}, proto::Pipeline());
  };
  EXPECT_TRUE(edited("seed").ok());
  EXPECT_MESSAGE(edited("count"), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(edited("stage"), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(edited("name"), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(EditedPerformance("threads: many", {}), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::pipeline
