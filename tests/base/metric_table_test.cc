#include "base/metric_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>

namespace millrace::metric {
namespace {

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The number of families that a source defines.
size_t FamiliesIn(const std::string& source) {
  size_t count = 0;
  for (const std::string_view name : {"CounterFamily k", "GaugeFamily k", "HistogramFamily k"}) {
    for (size_t at = 0; (at = source.find(name, at)) != std::string::npos; ++at) ++count;
  }
  return count;
}

// With MILLRACE_REGENERATE=1 in the environment the page gets the table that it should have.
TEST(MetricTableTest, PageHoldsTheTableThatIsGenerated) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  const std::string path = std::string(root) + "/docs/metrics.md";
  const std::string page = Read(path);
  const auto generated = WithTable(page);
  ASSERT_TRUE(generated.ok()) << generated.status();
  if (std::getenv("MILLRACE_REGENERATE") != nullptr) std::ofstream(path) << *generated;
  EXPECT_TRUE(Read(path) == *generated)
      << "run MILLRACE_REGENERATE=1 ctest --test-dir build/dev -R base_test";
}

TEST(MetricTableTest, EveryFamilyOfTheLibrariesIsARow) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  const std::filesystem::path table = std::filesystem::path(root) / "base/metric_table.h";
  EXPECT_EQ(FamiliesIn(Read(table)), Table().size()) << "kRows of base/metric_table.cc";
  for (const char* folder : {"base", "readers", "augment", "pipeline", "collectives", "trainer",
                             "capi", "python", "cli"}) {
    const std::filesystem::path below = std::filesystem::path(root) / folder;
    for (const auto& file : std::filesystem::recursive_directory_iterator(below)) {
      const std::string extension = file.path().extension();
      if (file.path() == table || (extension != ".h" && extension != ".cc")) continue;
      EXPECT_EQ(FamiliesIn(Read(file.path())), 0u)
          << file.path() << " defines metrics outside of base/metric_table.h";
    }
  }
}

TEST(MetricTableTest, NamesFollowTheConventionsOfPrometheus) {
  static const std::regex name(R"(millrace(_[a-z0-9]+)+)");
  static const std::regex label("[a-z]+");
  std::set<std::string> seen;
  for (const Row& row : Table()) {
    const std::string text(row.family->name);
    EXPECT_TRUE(std::regex_match(text, name)) << text;
    EXPECT_TRUE(seen.insert(text).second) << text << " is there twice";
    EXPECT_EQ(row.type == "counter", text.ends_with("_total")) << text;
    EXPECT_FALSE(text.ends_with("_max")) << text;
    for (const char* unit : {"bytes", "seconds"}) {
      EXPECT_EQ(row.family->unit == unit, text.find(unit) != std::string::npos) << text;
    }
    EXPECT_EQ(row.type == "histogram", row.type == "histogram" && row.family->unit == "seconds");
    EXPECT_FALSE(row.family->help.empty()) << text;
    EXPECT_FALSE(row.family->help.ends_with('.')) << text;
    EXPECT_TRUE(row.family->label.empty() ||
                std::regex_match(std::string(row.family->label), label))
        << text;
  }
}

TEST(MetricTableTest, APageWithoutTheMarksIsRefused) {
  for (const char* page :
       {"no table\n", "<!-- metrics -->\n", "<!-- end of metrics -->\n<!-- metrics -->\n"}) {
    EXPECT_EQ(WithTable(page).status().code(), absl::StatusCode::kInvalidArgument) << page;
  }
  EXPECT_TRUE(WithTable("<!-- metrics -->\nold\n<!-- end of metrics -->\n").ok());
}

}  // namespace
}  // namespace millrace::metric
