#include "readers/record_source.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class ExpandFilesTest : public testing::Test {
 protected:
  ExpandFilesTest() {
    for (const char* name : {"train-2.tfrecord", "train-0.tfrecord", "train-1.tfrecord",
                             "eval-0.tfrecord", "odd[1].tfrecord", ".hidden.tfrecord"}) {
      WriteFile(folder_ / name, "x");
    }
    std::filesystem::create_directory(folder_ / "train-folder.tfrecord");
  }

  absl::StatusOr<std::vector<std::string>> Expand(const std::vector<std::string>& names) const {
    std::vector<std::string> patterns;
    for (const std::string& name : names) patterns.push_back(folder_ / name);
    return ExpandFiles(patterns);
  }
  std::string Error(const std::string& pattern) const {
    const auto files = Expand({pattern});
    EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
    return std::string(files.status().message());
  }

  const TempFolder folder_;
};

TEST_F(ExpandFilesTest, PatternsGiveSortedFilesWithoutFoldersAndHiddenNames) {
  EXPECT_THAT(Expand({"train-*"}).value(),
              ElementsAre(folder_ / "train-0.tfrecord", folder_ / "train-1.tfrecord",
                          folder_ / "train-2.tfrecord"));
  EXPECT_EQ(Expand({"*"})->size(), 5u);
}

TEST_F(ExpandFilesTest, FoldersAreLeftOutUnderEveryName) {
  std::filesystem::create_directory(folder_ / "a*b");
  WriteFile(folder_ / "a*b/train-9.tfrecord", "x");
  std::filesystem::create_directory(folder_ / "a*b/train-x");
  std::filesystem::create_symlink("train-folder.tfrecord", folder_ / "train-7.tfrecord");
  std::filesystem::create_symlink("train-0.tfrecord", folder_ / "train-8.tfrecord");
  std::filesystem::create_symlink("nowhere", folder_ / "train-9.tfrecord");
  EXPECT_THAT(Expand({"train-[789fx]*"}).value(),
              ElementsAre(folder_ / "train-8.tfrecord", folder_ / "train-9.tfrecord"));
  EXPECT_THAT(Expand({"a?b/train-*"}).value(), ElementsAre(folder_ / "a*b/train-9.tfrecord"));
  EXPECT_THAT(Expand({"./train-[0f]*"}).value(), ElementsAre(folder_ / "./train-0.tfrecord"));
  for (const char* folders : {"train-fold*", "*/", "a?b/train-x*", "train-folder.tfrecord/"}) {
    EXPECT_EQ(Expand({folders}).status().code(), absl::StatusCode::kNotFound) << folders;
  }
}

TEST_F(ExpandFilesTest, ManyPatternsAreOneSortedListWithoutDuplicates) {
  EXPECT_THAT(Expand({"train-[12]*", "train-1.tfrecord", "eval-*"}).value(),
              ElementsAre(folder_ / "eval-0.tfrecord", folder_ / "train-1.tfrecord",
                          folder_ / "train-2.tfrecord"));
}

TEST_F(ExpandFilesTest, NameOfAnExistingFileIsTakenAsItIs) {
  EXPECT_THAT(Expand({"odd[1].tfrecord"}).value(), ElementsAre(folder_ / "odd[1].tfrecord"));
}

TEST_F(ExpandFilesTest, NoPatternIsInvalid) {
  EXPECT_EQ(ExpandFiles({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ExpandFilesTest, MissingNameShowsTheNearest) {
  const std::string error = Error("trian-1.tfrecord");
  EXPECT_THAT(error, HasSubstr("trian-1.tfrecord; nearest names in"));
  EXPECT_THAT(error, HasSubstr(": train-1.tfrecord, "));
  EXPECT_THAT(error, Not(HasSubstr("hidden")));
}

TEST_F(ExpandFilesTest, MissingPatternShowsNearestNamesToo) {
  EXPECT_THAT(Error("tran-*.tfrecord"), HasSubstr("train-0.tfrecord"));
}

TEST_F(ExpandFilesTest, NamesThatAreFarAreNotCalledNear) {
  std::filesystem::create_directory(folder_ / "mixed");
  for (const char* name : {"x.tfr", "tfvenv", "chroot"}) WriteFile(folder_ / "mixed/" + name, "x");
  EXPECT_EQ(Error("mixed/nope*.tfrecord"), "no file matches " + folder_ / "mixed/nope*.tfrecord" +
                                               "; " + folder_ / "mixed" + " holds no *.tfrecord");
  EXPECT_THAT(Error("mixed/nope*"), EndsWith("holds no such name"));
  EXPECT_THAT(Error("validation-*.tfrecord"),
              EndsWith("holds 6 *.tfrecord, but none of a name near that: eval-0.tfrecord, ..."));
}

TEST_F(ExpandFilesTest, OneMissingPatternAmongGoodOnesIsAnError) {
  const auto files = Expand({"train-*", "test-*"});
  EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(files.status().message()), HasSubstr("test-*"));
}

TEST_F(ExpandFilesTest, FoldersAreExplained) {
  EXPECT_THAT(Error("no/such.tfrecord"), HasSubstr("there is no folder"));
  EXPECT_THAT(Error("no/such-*.tfrecord"), HasSubstr("there is no folder"));
  EXPECT_THAT(Error("train-folder.tfrecord"), HasSubstr("is a folder"));
  EXPECT_THAT(Error("train-folder.tfrecord/a"), HasSubstr("is empty"));
}

}  // namespace
}  // namespace millrace::readers
