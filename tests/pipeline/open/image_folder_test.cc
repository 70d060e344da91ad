#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "base/context.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"
#include "tests/messages.h"
#include "tests/temp_files.h"

// Classes and files of an image_folder that a plan names.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;

class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() {
    for (const char* const name : {"cat/1.jpg", "dog/1.jfif", "dog/2.webp", "fox/1.jpe"}) {
      WriteFile(folder_ / (std::string("in/") + name), "123456789");
    }
    std::filesystem::create_directory(folder_ / "in/ant");
    std::filesystem::create_directory(folder_ / "in/@eaDir");
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> Open(const std::string& options) {
    const auto plan = Plan::FromText(
        absl::StrCat("stage { image_folder { path: '", folder_ / "in", "' ", options,
                     " } }\nstage { decode_raw { shape: 9 } }\nstage { batch { size: 4 } }\n"),
        "p");
    if (!plan.ok()) return plan.status();
    warnings_.clear();
    ContextOptions context;
    context.log = [this](LogLevel level, std::string_view text) {
      if (level == LogLevel::kWarning) warnings_.emplace_back(text);
    };
    context_ = *MakeContext(std::move(context));
    return Pipeline::Open(*plan, context_, {});
  }
  std::vector<int64_t> Labels(const std::string& options) {
    auto pipeline = Open(options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (!pipeline.ok()) return {};
    fingerprint_ = (*pipeline)->data_fingerprint();
    std::vector<int64_t> labels;
    const auto batch = (*pipeline)->Next();
    EXPECT_TRUE(batch.ok() && batch->has_value()) << batch.status();
    const auto values = (*batch)->Find("label").as<int64_t>();
    for (int64_t row = 0; row < (*batch)->num_valid_rows(); ++row) labels.push_back(values[row]);
    return labels;
  }

  TempFolder folder_;
  std::vector<std::string> warnings_;
  std::shared_ptr<Context> context_;
  uint64_t fingerprint_ = 0;
};

// S-SOURCE-7.
TEST_F(ImageFolderTest, EmptyClassesCountAndAreLoggedAsIsWhatIsLeftOut) {
  EXPECT_THAT(Labels(""), ElementsAre(1, 2, 3));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_MESSAGE(warnings_[0]);
  EXPECT_MESSAGE(warnings_[1]);
}

// S-SOURCE-7, S-FINGERPRINT-4.
TEST_F(ImageFolderTest, TheClassesOfThePlanGiveTheLabels) {
  Labels("");
  const uint64_t sorted = fingerprint_;
  EXPECT_THAT(Labels("classes: ['fox', 'bee', 'dog', 'cat']"), ElementsAre(3, 2, 0));
  const uint64_t given = fingerprint_;
  EXPECT_NE(given, sorted);
  WriteFile(folder_ / "classes.txt", "fox\nbee\ndog\ncat\n");
  const std::string file = absl::StrCat("classes_file: '", folder_ / "classes.txt", "'");
  EXPECT_THAT(Labels(file), ElementsAre(3, 2, 0));
  EXPECT_EQ(fingerprint_, given);
  EXPECT_MESSAGE(Open("classes: ['fox', 'dog']"), absl::StatusCode::kInvalidArgument, "unknown");
  EXPECT_MESSAGE(Open("classes: 'a' " + file), absl::StatusCode::kInvalidArgument, "both");
  EXPECT_MESSAGE(Open("label: 1 " + file), absl::StatusCode::kInvalidArgument, "label");
  EXPECT_MESSAGE(Open("classes: ''"), absl::StatusCode::kInvalidArgument, "empty");
}

// S-SOURCE-7.
TEST_F(ImageFolderTest, StrictPlansRefuseWhatWouldBeLeftOut) {
  EXPECT_MESSAGE(Open("strict: true"), absl::StatusCode::kInvalidArgument);
  std::filesystem::remove(folder_ / "in/dog/2.webp");
  EXPECT_THAT(Labels("strict: true"), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace millrace::pipeline
