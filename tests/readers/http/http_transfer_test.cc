#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <memory>

#include "readers/http/transfer.h"
#include "tests/readers/http/http_server.h"

namespace millrace::readers {
namespace {

std::atomic<int> num_refused = 0;  // the test's own calls -> the test

// As the oldest libcurl that is supported: CURLOPT_SASL_AUTHZID, of 7.66, is its last option.
CURLcode SetOptionOf768(CURL* easy, CURLoption option, ...) {
  constexpr int kNumbersOfType = 10'000;
  constexpr int kLastOption = 289;
  if (static_cast<int>(option) % kNumbersOfType > kLastOption) {
    ++num_refused;
    return CURLE_UNKNOWN_OPTION;
  }
  va_list values;
  va_start(values, option);
  void* const value = va_arg(values, void*);  // a long is passed alike
  va_end(values);
  return curl_easy_setopt(easy, option, value);
}

using Multi = std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)>;

// Lets libcurl work, and returns whether requests are under way.
bool Work(CURLM* multi) {
  int num_running = 0;
  EXPECT_EQ(curl_multi_perform(multi, &num_running), CURLM_OK);
  if (num_running > 0) curl_multi_poll(multi, nullptr, 0, /*timeout_ms=*/10, nullptr);
  return num_running > 0;
}

// How many new connections are made at once depends on it.
TEST(HttpTransferTest, AConnectionThatWasThereIsKnownToTheOldestLibcurlToo) {
  ::setenv("no_proxy", "127.0.0.1", 1);
  std::atomic<bool> answers = true;  // the test -> the server
  std::atomic<int> num_asked = 0;    // the server -> the test
  const ScriptServer server({[&](Exchange& exchange) {
    do {
      ++num_asked;
      answers.wait(false);
      exchange.Send(
          "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\n"
          "Content-Length: 1\r\nContent-Range: bytes 0-0/5\r\n\r\nb");
    } while (exchange.ReceiveNext());
  }});
  Libcurl curl = **SystemLibcurl();
  curl.easy_setopt = &SetOptionOf768;
  num_refused = 0;
  const HttpOptions options;
  std::array<std::byte, 1> out;
  HttpRange range;
  range.url = server.Url("a");
  range.out = out;
  const auto now = HttpTransfer::Clock::now();
  const auto before = now - std::chrono::seconds(1);
  const Multi multi(curl_multi_init(), &curl_multi_cleanup);
  for (const bool reuses : {false, true}) {
    HttpTransfer transfer(curl, options, range, {});
    ASSERT_EQ(curl_multi_add_handle(multi.get(), transfer.Start(now)), CURLM_OK);
    EXPECT_TRUE(transfer.ConnectedSince(before)) << "it may connect";
    answers = false;
    while (num_asked <= static_cast<int>(reuses)) ASSERT_TRUE(Work(multi.get()));
    EXPECT_EQ(transfer.ConnectedSince(before), !reuses);
    answers = true;
    answers.notify_all();
    while (Work(multi.get())) {
    }
    curl_multi_remove_handle(multi.get(), transfer.handle());
    EXPECT_TRUE(transfer.Finish(CURLE_OK, /*stalled=*/false, now, /*chance=*/0));
    EXPECT_TRUE(transfer.TakeOutcome().ok());
  }
  EXPECT_EQ(num_refused, 0);
}

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
