#ifndef MILLRACE_READERS_HTTP_TRANSFER_H_
#define MILLRACE_READERS_HTTP_TRANSFER_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "readers/http/client.h"
#include "readers/http/libcurl.h"

namespace millrace::readers {

// One request, through all its attempts. The functions that libcurl calls back are static.
// Thread-compatible.
class HttpTransfer {
 public:
  using Clock = std::chrono::steady_clock;

  // Keeps references to `curl` and `options`.
  HttpTransfer(const Libcurl& curl, const HttpOptions& options, HttpRange range,
               HttpClient::Done done);

  // Begins an attempt: a handle to be added to a multi handle; null when there is no memory. The
  // handle lives until Finish, and knows this object as CURLINFO_PRIVATE.
  CURL* Start(Clock::time_point now);
  CURL* handle() const { return easy_.get(); }
  // True if the attempt is too slow. Judged once in every stall_time.
  bool IsStalled(Clock::time_point now);
  Clock::time_point stall_check() const { return window_begin_ + options_.stall_time; }
  // True if the attempt began after `since`, and not on a connection that was there.
  bool ConnectedSince(Clock::time_point since) const { return started_ > since && !Reuses(); }

  // Ends the attempt, which libcurl or IsStalled says is over. The handle is gone afterwards.
  //   true   the request is over: outcome() says how
  //   false  it is to be started again at due()
  bool Finish(CURLcode code, bool stalled, Clock::time_point now, double chance);
  Clock::time_point due() const { return due_; }
  void Complete(absl::StatusOr<HttpFacts> outcome) { done_(std::move(outcome)); }
  absl::StatusOr<HttpFacts> TakeOutcome() { return std::move(outcome_); }

 private:
  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnBody(char* data, size_t size, size_t count, void* self);

  // True once the attempt has a connection that was there.
  bool Reuses() const;
  void SetOptions();
  void SetHeaders();
  size_t TakeBody(std::string_view bytes);
  void Judge();
  absl::StatusOr<HttpFacts> OutcomeOf(CURLcode code, bool stalled) const;
  absl::Status Explain(const absl::Status& status, Clock::time_point now) const;

  const Libcurl& curl_;
  const HttpOptions& options_;
  const HttpRange range_;
  const HttpClient::Done done_;
  size_t got_ = 0;  // bytes at the front of range_.out, of all attempts
  int attempts_ = 0;
  Clock::time_point begin_;  // begin of the first attempt
  Clock::time_point due_;
  absl::StatusOr<HttpFacts> outcome_ = absl::UnknownError("under way");

  // The state of the running attempt.
  std::unique_ptr<CURL, decltype(Libcurl::easy_cleanup)> easy_{nullptr, curl_.easy_cleanup};
  std::unique_ptr<curl_slist, decltype(Libcurl::slist_free_all)> headers_{nullptr,
                                                                          curl_.slist_free_all};
  HttpHead head_;
  Clock::time_point started_;  // the begin of the attempt
  std::optional<absl::StatusOr<HttpFacts>> judged_;
  size_t discarded_ = 0;  // bytes of the body of an error
  Clock::time_point window_begin_;
  uint64_t window_bytes_ = 0;  // since then, headers included
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_HTTP_TRANSFER_H_
