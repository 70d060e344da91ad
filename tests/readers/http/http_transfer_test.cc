#include <gmock/gmock.h>

#include <array>

#include "readers/http/transfer.h"
#include "tests/readers/http/http_server.h"

namespace millrace::readers {
namespace {

// The watch for slow servers may look at an attempt when its last byte has come.
TEST(HttpTransferTest, AnAnswerThatIsWholeIsNotStalled) {
  ::setenv("no_proxy", "127.0.0.1", 1);
  const ScriptServer server({Good("bytes")});
  const HttpOptions options;
  std::array<std::byte, 1> out;
  HttpRange range;
  range.url = server.Url("a");
  range.shown_url = range.url;
  range.out = out;
  const auto curl = SystemLibcurl();
  ASSERT_TRUE(curl.ok()) << curl.status();
  HttpTransfer transfer(**curl, options, range, {});
  const auto now = HttpTransfer::Clock::now();
  ASSERT_EQ(curl_easy_perform(transfer.Start(now)), CURLE_OK);
  EXPECT_TRUE(transfer.Finish(CURLE_OK, /*stalled=*/true, now, /*chance=*/0));
  const auto outcome = transfer.TakeOutcome();
  EXPECT_TRUE(outcome.ok()) << outcome.status();
}

}  // namespace
}  // namespace millrace::readers
