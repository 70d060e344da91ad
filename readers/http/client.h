#ifndef MILLRACE_READERS_HTTP_CLIENT_H_
#define MILLRACE_READERS_HTTP_CLIENT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/cancels.h"
#include "readers/http/head.h"
#include "readers/http_options.h"

namespace millrace::readers {

// Bytes of a file to fetch.
struct HttpRange {
  std::string url;
  std::string shown_url;  // for messages
  uint64_t offset = 0;
  std::span<std::byte> out;           // not empty; must live until the request is done
  std::optional<HttpFacts> expected;  // nullopt: the request that finds out, of one byte
};

// Asks servers for ranges of files, many at once, and asks again when that may help.
//
// One thread runs all requests through libcurl's multi interface: threads that wait for bytes have
// work of their own, no thread waits for read-ahead, and connections are kept and counted in one
// place without a lock. An attempt that broke off is continued where it ended.
// Thread-safe.
class HttpClient {
 public:
  using Done = std::function<void(absl::StatusOr<HttpFacts>)>;

  // `cancels` is asked by the client's thread while there are requests.
  //   RESOURCE_EXHAUSTED   no thread, or no memory
  //   FAILED_PRECONDITION  libcurl is not installed, or too old
  static absl::StatusOr<std::unique_ptr<HttpClient>> Make(const HttpOptions& options,
                                                          Cancels cancels = {});
  // Requests that are not done end as CANCELLED. In a forked child it waits for nothing.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Fetches all of `range` and then calls `done`, once, on the client's thread; it must not block.
  //   value              `out` is full (a request that finds out: it may be not)
  //   UNAVAILABLE        attempts or time ran out; the message says how many and why
  //   DEADLINE_EXCEEDED  the same, and the last attempt stalled
  //   CANCELLED          the client ends, or `cancels` has returned true
  //   the errors of JudgeHead
  void Fetch(HttpRange range, Done done);

 private:
  class Loop;
  explicit HttpClient(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
};

// How long to wait after `attempts` failed ones; `chance` in [0, 1).
std::chrono::milliseconds BackoffAfter(int attempts, const HttpOptions& options, double chance);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_CLIENT_H_
