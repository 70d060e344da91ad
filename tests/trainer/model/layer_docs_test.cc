#include "trainer/model/layer_docs.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/status.h"

namespace millrace::trainer {
namespace {

std::string ReadPage(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// With MILLRACE_REGENERATE=1 in the environment the page gets the table that it should have.
TEST(LayerDocsTest, PageHoldsTheTableThatIsGenerated) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  const std::string path = std::string(root) + "/docs/models.md";
  const auto generated = WithLayerTable(ReadPage(path));
  ASSERT_TRUE(generated.ok()) << generated.status();
  if (std::getenv("MILLRACE_REGENERATE") != nullptr) std::ofstream(path) << *generated;
  EXPECT_TRUE(ReadPage(path) == *generated)
      << "run MILLRACE_REGENERATE=1 ctest --test-dir build/dev -R trainer_model";
}

TEST(LayerDocsTest, EveryFieldOfEveryLayerIsDocumented) {
  const absl::Status status = CheckLayerDocs();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(LayerDocsTest, PagesWithoutAPlaceAreRefused) {
  EXPECT_FALSE(WithLayerTable("# Models\n").ok());
  EXPECT_FALSE(WithLayerTable("<!-- end of layers -->\n<!-- layers -->\n").ok());
}

}  // namespace
}  // namespace millrace::trainer
