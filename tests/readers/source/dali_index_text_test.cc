#include "tests/messages.h"
#include "tests/readers/source/record_source_fixture.h"

// DALI's indexes as other programs write them: DALI reads two numbers after the other, whatever
// blanks lie between them (`index_file >> offset >> size`).

namespace millrace::readers {
namespace {

class DaliIndexTextTest : public RecordSourceFixture {
 protected:
  absl::StatusOr<std::unique_ptr<RecordSource>> OpenBy(const std::string& idx) {
    WriteFile(data_ / "a.idx", idx);
    options_.dali_index = {data_ / "a.idx"};
    return Open({Shard("a", Frames({"0123", "abcdefgh"}))});
  }
};

// S-SOURCE-13.
TEST_F(DaliIndexTextTest, LineEndsBlanksAndABlankLastLineDoNotMatter) {
  for (const char* idx : {"0 20\n20 24\n", "0 20\r\n20 24\r\n", "0 20\r20 24\r", "0\t20\n20\t24\n",
                          "  0   20  \n20 \t 24", "0 20\n20 24\n\n", "0 20\r\n20 24\r\n\r\n \t\r\n",
                          "\xef\xbb\xbf"
                          "0 20\n20 24\n"}) {
    const auto source = OpenBy(idx);
    ASSERT_TRUE(source.ok()) << source.status() << idx;
    ExpectRecords(**source, {"0123", "abcdefgh"});
  }
}

// S-SOURCE-13.
TEST_F(DaliIndexTextTest, AnEmptyIndexOfAFileWithBytesIsAnError) {
  EXPECT_MESSAGE(OpenBy(""), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(OpenBy("\n \r\n"), absl::StatusCode::kInvalidArgument);
  WriteFile(data_ / "none.idx", "");
  options_.dali_index = {data_ / "none.idx"};
  const auto source = Open({Shard("none", "")});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->num_records(), 0u);
}

// S-SOURCE-13.
TEST_F(DaliIndexTextTest, OtherTextIsNamedByItsLine) {
  EXPECT_MESSAGE(OpenBy("0 20\n\n20 24\n"), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(OpenBy("0 20\n20,24\n"), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(OpenBy("0 20 20 24\n"), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::readers
