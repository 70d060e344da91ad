#include "pipeline/stage_docs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// With MILLRACE_REGENERATE=1 in the environment the page gets the tables that it should have.
TEST(StageDocsTest, PageHoldsTheTablesThatAreGenerated) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  const std::string path = std::string(root) + "/docs/pipeline.md";
  const std::string page = Read(path);
  const auto generated = WithStageTables(page);
  ASSERT_TRUE(generated.ok()) << generated.status();
  if (std::getenv("MILLRACE_REGENERATE") != nullptr) std::ofstream(path) << *generated;
  EXPECT_TRUE(Read(path) == *generated)
      << "run MILLRACE_REGENERATE=1 ctest --test-dir build/dev -R pipeline_explain";
}

TEST(StageDocsTest, ATextForATerminalHasStagesOptionsAndDefaults) {
  const std::string text = StagesText();
  EXPECT_THAT(text, HasSubstr("\n  flip                     The image mirrored. Draws at random.\n"
                              "    field                  [\"image\"]\n"
                              "    probability            otherwise the image stays as it is "
                              "[0.5]\n"));
  EXPECT_THAT(text, HasSubstr("    files                  names, patterns and URLs [required]\n"));
  EXPECT_THAT(text, HasSubstr("    output                 [\"image/shape\"]\n"));
}

TEST(StageDocsTest, BrokenPagesAreRefused) {
  const auto code = [](const std::string& page) { return WithStageTables(page).status().code(); };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code("no table\n"), kInvalid);
  EXPECT_EQ(code("<!-- stages: nonsense -->\n<!-- end of stages -->\n"), kInvalid);
  EXPECT_EQ(code("<!-- stages: cuts -->\n"), kInvalid);
  EXPECT_EQ(code("<!-- stages: cuts -->\n<!-- end of stages -->\n"
                 "<!-- stages: cuts -->\n<!-- end of stages -->\n"),
            kInvalid);
}

}  // namespace
}  // namespace millrace::pipeline
