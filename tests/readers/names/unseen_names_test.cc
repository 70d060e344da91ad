// Names that cannot be looked at are errors that say so, never "empty" or "no file matches"; and
// names with a scheme.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "readers/expand_files.h"
#include "readers/open_file.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"
#include "tests/temp_folder.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;

// Root may look at everything: for its life this process is nobody, if it was root.
class AsNobody {
 public:
  // `file` lies in open folders of the test.
  explicit AsNobody(const std::string& file) : was_root_(::geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (was_root_ && ::seteuid(kNobody) != 0) {
      why_not_ = std::string("root cannot become nobody here: ") + std::strerror(errno);
    } else if (::faccessat(AT_FDCWD, file.c_str(), F_OK, AT_EACCESS) != 0) {
      why_not_ = "the folder for temporary files lies in one that is closed to nobody";
    }
  }
  ~AsNobody() { EXPECT_EQ(was_root_ ? ::seteuid(0) : 0, 0); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

  // Why nothing can be tested so; "" if it can.
  const std::string& why_not() const { return why_not_; }

 private:
  const bool was_root_;
  std::string why_not_;
};

class UnseenNamesTest : public testing::Test {
 protected:
  UnseenNamesTest() {
    ::chmod(folder_.path().c_str(), 0755);
    std::filesystem::create_directory(folder_ / "closed");
    WriteFile(folder_ / "closed/a.tfrecord", "x");
    WriteFile(folder_ / "closed/a-00000-of-00002.tfrecord", "x");
    ::chmod((folder_ / "closed").c_str(), 0);
    std::filesystem::create_directories(folder_ / "open/deep");
    WriteFile(folder_ / "open/a.tfrecord", "x");
    WriteFile(folder_ / "open/deep/a.tfrecord", "x");
    std::filesystem::create_symlink("loop", folder_ / "loop");
  }
  ~UnseenNamesTest() override { ::chmod((folder_ / "closed").c_str(), 0755); }

  absl::Status Error(const std::string& name) {
    return ExpandFiles(std::vector<std::string>{folder_ / name}).status();
  }

  const TempFolder folder_;
};

// S-SOURCE-12.
TEST_F(UnseenNamesTest, AFolderThatIsClosedIsPermissionDenied) {
  const AsNobody nobody(folder_ / "open/a.tfrecord");
  if (!nobody.why_not().empty()) GTEST_SKIP() << nobody.why_not();
  // Beside an open folder, too: its files alone would be too few.
  for (const char* name :
       {"closed/a.tfrecord", "closed/*.tfrecord", "closed/none.tfrecord", "closed/{a,b}.tfrecord",
        "closed/a@2.tfrecord", "closed/a@*.tfrecord", "*/a.tfrecord", "[a-z]*/deep/*.tfrecord"}) {
    const absl::Status status = Error(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << name << ": " << status;
    EXPECT_NE(status.message().find("closed"), absl::string_view::npos) << status;
  }
}

TEST_F(UnseenNamesTest, AFolderThatCannotBeListedIsNotSaidToBeEmpty) {
  ::chmod((folder_ / "closed").c_str(), 0711);  // files may be opened by their names
  absl::Status there, missing, pattern;
  {
    const AsNobody nobody(folder_ / "open/a.tfrecord");
    if (!nobody.why_not().empty()) GTEST_SKIP() << nobody.why_not();
    there = Error("closed/a.tfrecord");
    missing = Error("closed/b.tfrecord");
    pattern = Error("closed/*");
  }
  EXPECT_TRUE(there.ok()) << there;
  EXPECT_MESSAGE(missing, absl::StatusCode::kNotFound);
  EXPECT_EQ(pattern.code(), absl::StatusCode::kPermissionDenied) << pattern;
}

TEST_F(UnseenNamesTest, LoopsAndLongNamesAreSaidToBeThat) {
  EXPECT_MESSAGE(Error("loop/a.tfrecord"), absl::StatusCode::kFailedPrecondition);
  EXPECT_MESSAGE(OpenFile(folder_ / "loop").status(), absl::StatusCode::kFailedPrecondition);
  const absl::Status too_long = Error(std::string(300, 'n'));
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument) << too_long;
}

TEST_F(UnseenNamesTest, FileUrlsStandForTheirPaths) {
  WriteFile(folder_ / "a b.tfrecord", "x");
  const std::string root = "file://" + folder_.path();
  const auto files = ExpandFiles(std::vector<std::string>{root + "/a%20*.tfrecord"});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(folder_ / "a b.tfrecord"));
  EXPECT_EQ(ReadWholeFile(root + "/a%20b.tfrecord", 10).value(), "x");
  EXPECT_TRUE(OpenFile(root + "/a%20b.tfrecord").ok());
}

TEST_F(UnseenNamesTest, OtherSchemesAreNotRead) {
  for (const char* name : {"s3://b/x.tfrecord", "gs://b/x-{0..3}.tar", "hdfs://n/x@4.tfrecord"}) {
    const auto files = ExpandFiles(std::vector<std::string>{name});
    EXPECT_EQ(files.status().code(), absl::StatusCode::kUnimplemented) << files.status();
    EXPECT_EQ(OpenFile(name).status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(ReadWholeFile(name, 10).status().code(), absl::StatusCode::kUnimplemented);
  }
}

// A path that has "://" inside is none of a URL.
TEST_F(UnseenNamesTest, PathsWithColonsAreFiles) {
  std::filesystem::create_directories(folder_ / "a:");
  WriteFile(folder_ / "a:/x", "y");
  const auto files = ExpandFiles(std::vector<std::string>{folder_ / "a://*"});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->size(), 1u);
}

}  // namespace
}  // namespace millrace::readers
