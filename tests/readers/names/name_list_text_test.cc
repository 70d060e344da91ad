#include <gmock/gmock.h>

#include "readers/expand_files.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"

// Lists of files as editors of any system write them.

namespace millrace::readers {
namespace {

using testing::ElementsAre;

class NameListTextTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> Expand(std::string_view list) const {
    WriteFile(folder_ / "a", "x");
    WriteFile(folder_ / "b", "x");
    WriteFile(folder_ / "list", list);
    const std::vector<std::string> names = {"list:" + (folder_ / "list")};
    return ExpandFiles(names);
  }
  const TempFolder folder_;
};

// S-SOURCE-11.
TEST_F(NameListTextTest, LineEndsAndAByteOrderMarkAreNoPartOfAName) {
  for (const char* list : {"a\nb\n", "a\r\nb\r\n", "a\rb\r", "# CR\ra\r\rb",
                           "\xef\xbb\xbf"
                           "a\nb",
                           "\xef\xbb\xbf# list\r\na\r\nb\r\n"}) {
    EXPECT_THAT(Expand(list).value(), ElementsAre(folder_ / "a", folder_ / "b")) << list;
  }
}

// S-SOURCE-11.
TEST_F(NameListTextTest, Utf16IsNamed) {
  EXPECT_MESSAGE(Expand(std::string_view("\xff\xfe"
                                         "a\0\n\0",
                                         6)),
                 absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::readers
