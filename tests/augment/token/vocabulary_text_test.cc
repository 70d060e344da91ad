#include <gtest/gtest.h>

#include <string>

#include "augment/vocabulary.h"
#include "tests/messages.h"
#include "tests/temp_files.h"

// Vocabularies as editors of any system write them.

namespace millrace::augment {
namespace {

// S-SOURCE-11.
TEST(VocabularyTextTest, LineEndsAndAByteOrderMarkAreNoPartOfAToken) {
  const TempFolder folder;
  for (const char* bytes : {"a\nbc\nd", "a\r\nbc\r\nd\r\n", "a\rbc\rd\r", "a\rbc\nd\r\n",
                            "\xef\xbb\xbf"
                            "a\nbc\nd\n"}) {
    WriteFile(folder / "v", bytes);
    const auto vocabulary = Vocabulary::Load(folder / "v");
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status() << bytes;
    EXPECT_EQ(vocabulary->size(), 3) << bytes;
    EXPECT_EQ(vocabulary->Find("a"), 0) << bytes;
    EXPECT_EQ(vocabulary->Find("bc"), 1) << bytes;
    EXPECT_EQ(vocabulary->Find("d"), 2) << bytes;
  }
}

// S-SOURCE-11.
TEST(VocabularyTextTest, Utf16IsNamed) {
  const TempFolder folder;
  WriteFile(folder / "v", std::string_view("\xff\xfe"
                                           "a\0\n\0",
                                           6));
  EXPECT_MESSAGE(Vocabulary::Load(folder / "v"), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::augment
