#include "pipeline/edit_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "pipeline/performance.h"
#include "tests/messages.h"

namespace millrace::pipeline {
namespace {

constexpr char kStages[] = "stage { range { count: 9 } }\nstage { batch { size: 3 } }\n";

// The plan's text after the changes, which must be a plan that differs in these only.
std::string Edited(const std::string& text, const std::vector<FieldChange>& changes,
                   const Variables& variables = {}) {
  const auto edited = EditPlanText(text, variables, changes);
  EXPECT_TRUE(edited.ok()) << edited.status() << "\n" << text;
  if (!edited.ok()) return "";
  const auto before = Plan::FromText(text, "before", variables);
  const auto after = Plan::FromText(edited->text, "after", edited->variables);
  EXPECT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  EXPECT_TRUE(SameButPerformance(*before, *after));
  EXPECT_EQ(before->Fingerprint(), after->Fingerprint());
  return edited->text;
}

TEST(EditPlanTest, ABlockThatIsNotThereComesBehindTheText) {
  EXPECT_EQ(Edited(kStages, {{"threads", 4, "was 2"}, {"run_us", 100, ""}}),
            absl::StrCat(kStages, "performance {\n  threads: 4  # was 2\n  run_us: 100\n}\n"));
  const auto titled =
      EditPlanText(kStages, {}, std::vector<FieldChange>{{"threads", 4, ""}}, "tuned");
  ASSERT_TRUE(titled.ok());
  EXPECT_EQ(titled->text, absl::StrCat(kStages, "performance {  # tuned\n  threads: 4\n}\n"));
  EXPECT_EQ(Edited(kStages, {}), kStages);
}

TEST(EditPlanTest, AFieldThatIsThereGetsTheValueAndOneComment) {
  const std::string head = absl::StrCat("# The plan.\n", kStages);
  EXPECT_EQ(
      Edited(head + "performance {\n  threads: 2\n  run_us: 50  # mine\n}\n# End\n",
             {{"threads", 4, "was 2"}, {"run_us", 100, "was 50"}}),
      head + "performance {\n  threads: 4  # was 2\n  run_us: 100  # mine; was 50\n}\n# End\n");
  EXPECT_EQ(Edited(head + "performance { threads: 2, run_us :50; }",
                   {{"threads", 4, "was 2"}, {"run_us", 100, "was 50"}}),
            head + "performance { threads: 4, run_us :100; }  # was 2; was 50");
  EXPECT_EQ(Edited(head + "performance: < threads : # why\n 0x2 > \n", {{"threads", 4, "was 2"}}),
            head + "performance: < threads : # why\n 4 >  # was 2 \n");
}

TEST(EditPlanTest, AFieldThatIsNotThereComesIntoTheBlock) {
  EXPECT_EQ(
      Edited(absl::StrCat("performance {\n    # Nothing.\n  }\n", kStages),
             {{"threads", 4, "a"}, {"run_us", 100, "b"}}),
      absl::StrCat("performance {\n    # Nothing.\n    threads: 4  # a\n    run_us: 100  # b\n"
                   "  }\n",
                   kStages));
  EXPECT_EQ(Edited(absl::StrCat("performance {} # x }\n", kStages),
                   {{"threads", 4, "a"}, {"run_us", 100, "b"}}),
            absl::StrCat("performance { threads: 4 run_us: 100 } # x }; a; b\n", kStages));
  EXPECT_EQ(Edited(absl::StrCat("performance <threads: 1>", kStages), {{"run_us", 9, ""}}),
            absl::StrCat("performance <threads: 1 run_us: 9 >", kStages));
}

TEST(EditPlanTest, TheRingIsPrefetch) {
  const FieldChange four = {"prefetch", 4, "was 2"};
  EXPECT_EQ(Edited(absl::StrCat(kStages, "stage { prefetch { batches: 2 } }\n"), {four}),
            absl::StrCat(kStages, "stage { prefetch { batches: 4 } }  # was 2\n"));
  EXPECT_EQ(Edited(absl::StrCat(kStages, "stage {\n  prefetch {}\n}\n"), {four}),
            absl::StrCat(kStages, "stage {\n  prefetch { batches: 4 }  # was 2\n}\n"));
  EXPECT_EQ(Edited(kStages, {four, {"threads", 1, ""}}),
            absl::StrCat(kStages, "stage { prefetch { batches: 4 } }  # was 2\n",
                         "performance {\n  threads: 1\n}\n"));
  const std::string list = "stage: [ { range { count: 9 } }, { batch { size: 3 } }";
  EXPECT_EQ(Edited(list + ", { prefetch { batches: 2 } } ]", {four}),
            list + ", { prefetch { batches: 4 } } ]  # was 2");
  EXPECT_EQ(Edited(list + "]", {four}), list + "]\nstage { prefetch { batches: 4 } }  # was 2\n");
}

TEST(EditPlanTest, LineEndsAreThoseOfTheFile) {
  const std::string before = absl::StrCat(kStages, "performance {\n  threads: 2 # mine  \n}");
  const std::string after =
      absl::StrCat(kStages,
                   "performance {\n  threads: 4 # mine; was 2  \n  run_us: 100  # new\n}\n"
                   "stage { prefetch { batches: 4 } }\n");
  const std::vector<FieldChange> changes = {
      {"threads", 4, "was 2"}, {"run_us", 100, "new"}, {"prefetch", 4, ""}};
  for (const char* const end : {"\n", "\r\n", "\r"}) {
    EXPECT_EQ(Edited(absl::StrReplaceAll(before, {{"\n", end}}), changes),
              absl::StrReplaceAll(after, {{"\n", end}}));
  }
  EXPECT_EQ(Edited("\xEF\xBB\xBF" + before, changes), "\xEF\xBB\xBF" + after);
}

TEST(EditPlanTest, CommentsAndStringsAreNoBracketsAndNoVariables) {
  const std::string odd =
      "# ${NOT} } $$\nname: \"} # ${X:-y} $$ {\" # '\nperformance { # { \"\n  threads: 2 # }\n # "
      ">\n}"
      " stage { range { count: 9 } } # performance\nstage { batch { size: 3 } }";
  EXPECT_EQ(Edited(odd, {{"threads", 4, "a"}, {"io_threads", 8, "b"}}),
            absl::StrReplaceAll(odd, {{"threads: 2 # }", "threads: 4 # }; a"},
                                      {" # >\n", " # >\n  io_threads: 8  # b\n"}}));
}

TEST(EditPlanTest, AVariableKeepsItsName) {
  const std::string text =
      absl::StrCat("name: \"${NAME}\"\n", kStages, "performance { threads: ${THREADS:-2} }\n");
  const std::vector<FieldChange> four = {{"threads", 4, "was 2"}};
  EXPECT_EQ(Edited(text, four, {{"NAME", "a much longer name"}}),
            absl::StrReplaceAll(text, {{":-2} }", ":-4} }  # was 2"}}));
  // Where it is given a value, that changes.
  const Variables given = {{"NAME", "x"}, {"THREADS", "3"}};
  const auto edited = EditPlanText(text, given, four);
  ASSERT_TRUE(edited.ok()) << edited.status();
  EXPECT_EQ(edited->text, text);
  EXPECT_EQ(edited->variables, (Variables{{"NAME", "x"}, {"THREADS", "4"}}));
}

TEST(EditPlanTest, AVariableThatStandsForMoreIsRefused) {
  const std::string text =
      "stage { range { count: 9 } } stage { batch { size: ${N} } } performance { threads: ${N} }";
  EXPECT_MESSAGE(EditPlanText(text, {{"N", "3"}}, std::vector<FieldChange>{{"threads", 4, ""}}),
                 absl::StatusCode::kFailedPrecondition);
  const std::string defaults = absl::StrReplaceAll(text, {{"${N}", "${N:-3}"}});
  EXPECT_EQ(Edited(defaults, {{"threads", 4, ""}}),
            absl::StrReplaceAll(defaults, {{"threads: ${N:-3}", "threads: ${N:-4}"}}));
}

TEST(EditPlanTest, NothingElseCanBeChanged) {
  EXPECT_MESSAGE(EditPlanText(kStages, {}, std::vector<FieldChange>{{"seed", 4, ""}}),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(EditPlanText(kStages, {}, std::vector<FieldChange>{{"thread", 4, ""}}),
                 absl::StatusCode::kInvalidArgument);
}

TEST(EditPlanTest, NamesOfFilesCount) {
  const auto plan = [](const std::string& path) {
    return *Plan::FromTextOfFile("stage { tfrecord { files: \"x\" } } stage { batch { size: 3 } }",
                                 path);
  };
  EXPECT_TRUE(SameButPerformance(plan("a/p"), plan("a/q")));
  EXPECT_FALSE(SameButPerformance(plan("a/p"), plan("b/p")));
  EXPECT_FALSE(SameButPerformance(plan("p"), plan("b/p")));
}

}  // namespace
}  // namespace millrace::pipeline
