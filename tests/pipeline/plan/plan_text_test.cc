#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "pipeline/plan.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"

// Plans as editors of any system write them.

namespace millrace::pipeline {
namespace {

constexpr char kPlan[] =
    "# A plan.\nseed: 3  # of a comment\nstage { tfrecord { files: 'a' } }\n"
    "stage { batch { size: 4 } }\n";

// S-SOURCE-11.
TEST(PlanTextTest, LineEndsAndAByteOrderMarkAreNoPartOfAPlan) {
  const std::string plain = Make(kPlan).ToText();
  for (const char* end : {"\r\n", "\r"}) {
    const std::string text = absl::StrReplaceAll(kPlan, {{"\n", end}});
    EXPECT_EQ(Make(text).ToText(), plain);
    EXPECT_EQ(Make("\xef\xbb\xbf" + text).ToText(), plain);
  }
}

// S-SOURCE-11.
TEST(PlanTextTest, PlacesAreThoseOfTheTextWithoutItsMark) {
  const std::string text =
      absl::StrReplaceAll(kPlan, {{"\n", "\r"}, {"size", "sise"}, {"# A", "\xef\xbb\xbf# A"}});
  EXPECT_MESSAGE(Plan::FromText(text, "p"), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(Plan::FromText("\xef\xbb\xbfsead: 3", "p"), absl::StatusCode::kInvalidArgument);
}

// S-SOURCE-11.
TEST(PlanTextTest, Utf16IsNamed) {
  EXPECT_MESSAGE(Plan::FromText(std::string("\xff\xfes\0e\0e\0d\0", 10), "p"),
                 absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::pipeline
