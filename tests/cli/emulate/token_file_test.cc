#include <gtest/gtest.h>

#include <string>

#include "cli/emulate/visit_record.h"
#include "tests/messages.h"
#include "tests/temp_files.h"

// The file of --token-file: what was not written whole is never taken for the start.

namespace millrace::cli {
namespace {

constexpr char kToken[] = "millrace-state 1 semantics=1 plan=01 data=02 batch=12";

class TokenFileTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Read(std::string_view bytes) const {
    WriteFile(folder_ / "token", bytes);
    return ReadTokenFile(folder_ / "token");
  }
  const TempFolder folder_;
};

// S-STATE-23.
TEST_F(TokenFileTest, AWholeTokenIsReadAndNoFileIsNoToken) {
  EXPECT_EQ(Read(std::string(kToken) + "\n").value(), kToken);
  EXPECT_EQ(Read(std::string(kToken) + "\r\n").value(), kToken);
  EXPECT_EQ(ReadTokenFile(folder_ / "none").value(), "");
}

// S-SOURCE-11.
TEST_F(TokenFileTest, AFileThatAnEditorSavedIsReadOrNamed) {
  EXPECT_EQ(Read("\xef\xbb\xbf" + std::string(kToken) + "\r").value(), kToken);
  EXPECT_MESSAGE(Read(std::string_view("\xff\xfem\0i\0", 6)), absl::StatusCode::kInvalidArgument);
}

// S-STATE-23.
TEST_F(TokenFileTest, AnEmptyOrTornFileIsAnError) {
  for (const char* bytes : {"", "\n", "\r\n"}) {
    EXPECT_MESSAGE(Read(bytes), absl::StatusCode::kInvalidArgument, "empty");
  }
  const std::string line = std::string(kToken) + "\n";
  EXPECT_MESSAGE(Read(line + line), absl::StatusCode::kInvalidArgument, "two");
  // "batch=1" of "batch=12" would be another batch.
  const std::string_view token = kToken;
  for (size_t size = 1; size <= token.size(); ++size) {
    EXPECT_MESSAGE(Read(token.substr(0, size)), absl::StatusCode::kInvalidArgument, "torn");
  }
}

}  // namespace
}  // namespace millrace::cli
