#include "readers/http/transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::readers {
namespace {

constexpr long kReceiveBytes = 256 << 10;
constexpr long kHttp = CURLPROTO_HTTP;
constexpr long kHttps = CURLPROTO_HTTPS;
// The body of an error up to so many bytes is read, which keeps its connection.
constexpr size_t kMostDiscarded = 64 << 10;

// The status for `code`, which is no HTTP answer; `text` says it in words. UNAVAILABLE: worth
// another try.
absl::Status StatusOf(CURLcode code, const std::string& text) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return absl::InvalidArgumentError(text);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_TOO_MANY_REDIRECTS:
      return absl::FailedPreconditionError(text);
    case CURLE_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

bool MayHelp(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace

HttpTransfer::HttpTransfer(const Libcurl& curl, const HttpOptions& options, HttpRange range,
                           HttpClient::Done done)
    : curl_(curl), options_(options), range_(std::move(range)), done_(std::move(done)) {}

CURL* HttpTransfer::Start(Clock::time_point now) {
  easy_.reset(curl_.easy_init());
  head_ = HttpHead();
  judged_.reset();
  discarded_ = 0;
  started_ = now;
  window_begin_ = now;
  window_bytes_ = 0;
  if (attempts_++ == 0) begin_ = now;
  if (easy_ == nullptr) return nullptr;
  SetOptions();
  SetHeaders();
  return easy_.get();
}

void HttpTransfer::SetOptions() {
  CURL* const easy = easy_.get();
  const bool https = absl::StartsWithIgnoreCase(range_.url, "https:");
  const uint64_t first = range_.offset + got_;
  const uint64_t last = range_.offset + range_.out.size() - 1;
  curl_.easy_setopt(easy, CURLOPT_PRIVATE, this);
  curl_.easy_setopt(easy, CURLOPT_URL, range_.url.c_str());
  curl_.easy_setopt(easy, CURLOPT_RANGE, absl::StrCat(first, "-", last).c_str());
  // Not the options that take names, which a libcurl before 7.85 would ignore.
  curl_.easy_setopt(easy, CURLOPT_PROTOCOLS, kHttp | kHttps);
  curl_.easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS, https ? kHttps : kHttp | kHttps);
  curl_.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
  curl_.easy_setopt(easy, CURLOPT_MAXREDIRS, static_cast<long>(options_.max_redirects));
  // Ranges that share one connection wait for each other's lost packets.
  curl_.easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_.easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBytes);
  curl_.easy_setopt(easy, CURLOPT_USERAGENT, "millrace");
  if (!options_.ca_file.empty()) {
    curl_.easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
  }
  curl_.easy_setopt(easy, CURLOPT_HEADERFUNCTION, &HttpTransfer::OnHeader);
  curl_.easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_.easy_setopt(easy, CURLOPT_WRITEFUNCTION, &HttpTransfer::OnBody);
  curl_.easy_setopt(easy, CURLOPT_WRITEDATA, this);
}

void HttpTransfer::SetHeaders() {
  std::vector<std::string> headers = {"Accept-Encoding: identity"};
  if (options_.sign) {
    options_.sign(range_.url, range_.offset + got_, range_.offset + range_.out.size() - 1, headers);
  }
  headers_.reset();
  for (const std::string& header : headers) {
    curl_slist* const longer = curl_.slist_append(headers_.get(), header.c_str());
    if (longer == nullptr) break;  // without memory the request soon fails by itself
    static_cast<void>(headers_.release());
    headers_.reset(longer);
  }
  curl_.easy_setopt(easy_.get(), CURLOPT_HTTPHEADER, headers_.get());
}

// Asked for rather than told by CURLOPT_PREREQFUNCTION, which a libcurl before 7.80 lacks.
bool HttpTransfer::Reuses() const {
  curl_off_t connected_us = 0;  // when it had a connection; 0: not yet
  long new_connections = 0;
  curl_.easy_getinfo(handle(), CURLINFO_PRETRANSFER_TIME_T, &connected_us);
  curl_.easy_getinfo(handle(), CURLINFO_NUM_CONNECTS, &new_connections);
  return connected_us > 0 && new_connections == 0;
}

size_t HttpTransfer::OnHeader(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  transfer.window_bytes_ += size * count;
  transfer.head_.TakeLine({data, size * count});
  return size * count;
}

size_t HttpTransfer::OnBody(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  transfer.window_bytes_ += size * count;
  return transfer.TakeBody({data, size * count});
}

// Anything but the size of `bytes` ends the attempt.
size_t HttpTransfer::TakeBody(std::string_view bytes) {
  if (!judged_.has_value()) Judge();
  if (!judged_->ok()) {
    discarded_ += bytes.size();
    return discarded_ > kMostDiscarded ? 0 : bytes.size();
  }
  const bool finds_out = !range_.expected.has_value();
  if (finds_out && !judged_->value().ranges) return 0;  // the whole file, which nobody wants yet
  if (bytes.size() > range_.out.size() - got_) {
    judged_ = absl::DataLossError("the answer has more bytes than it says");
    return 0;
  }
  std::memcpy(range_.out.data() + got_, bytes.data(), bytes.size());
  got_ += bytes.size();
  return bytes.size();
}

void HttpTransfer::Judge() {
  judged_ = JudgeHead(head_, {range_.offset + got_, range_.out.size() - got_, range_.expected});
}

bool HttpTransfer::IsStalled(Clock::time_point now) {
  if (now < stall_check()) return false;
  const std::chrono::duration<double> seconds = now - window_begin_;
  const double least = seconds.count() * static_cast<double>(options_.min_bytes_per_second);
  if (static_cast<double>(window_bytes_) < least) return true;
  window_begin_ = now;
  window_bytes_ = 0;
  return false;
}

absl::StatusOr<HttpFacts> HttpTransfer::OutcomeOf(CURLcode code, bool stalled) const {
  if (judged_.has_value() && !judged_->ok()) return judged_->status();
  if (judged_.has_value() && !range_.expected.has_value()) return *judged_;
  if (judged_.has_value() && got_ == range_.out.size()) return *judged_;
  if (stalled) {
    return absl::DeadlineExceededError(absl::StrCat("fewer than ", options_.min_bytes_per_second,
                                                    " bytes per second came for ",
                                                    options_.stall_time.count(), " ms"));
  }
  if (code != CURLE_OK) return StatusOf(code, curl_.easy_strerror(code));
  return absl::DataLossError(
      absl::StrCat("a body of ", got_, " bytes, where the answer says ", range_.out.size()));
}

bool HttpTransfer::Finish(CURLcode code, bool stalled, Clock::time_point now, double chance) {
  if (!judged_.has_value() && head_.status != 0 && code == CURLE_OK) Judge();  // without a body
  curl_off_t retry_after = 0;                                                  // seconds
  curl_.easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &retry_after);
  outcome_ = OutcomeOf(code, stalled);
  easy_.reset();
  if (outcome_.ok()) return true;
  const auto asked = std::chrono::milliseconds(std::min<curl_off_t>(retry_after, 3600) * 1000);
  due_ = now +
         std::min(std::max(BackoffAfter(attempts_, options_, chance), asked), options_.max_backoff);
  const bool again = MayHelp(outcome_.status()) && attempts_ < options_.max_attempts &&
                     due_ - begin_ <= options_.max_retry_time;
  if (!again) outcome_ = Explain(outcome_.status(), now);
  return !again;
}

absl::Status HttpTransfer::Explain(const absl::Status& status, Clock::time_point now) const {
  const std::string place = absl::StrCat(range_.shown_url, " at offset ", range_.offset + got_);
  if (!MayHelp(status)) return Annotate(status, place);
  const std::chrono::duration<double> seconds = now - begin_;
  return Annotate(status, absl::StrCat(place, ": gave up after ", attempts_,
                                       attempts_ == 1 ? " attempt in " : " attempts in ",
                                       seconds.count(), " s; the last one"));
}

}  // namespace millrace::readers
