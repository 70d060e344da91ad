#include "readers/http/client.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "readers/http/libcurl.h"
#include "readers/http/transfer.h"

namespace millrace::readers {
namespace {

using Clock = HttpTransfer::Clock;
using Multi = std::unique_ptr<CURLM, decltype(Libcurl::multi_cleanup)>;

}  // namespace

// The client's thread and what it shares with the others.
class HttpClient::Loop {
 public:
  Loop(const Libcurl& curl, const HttpOptions& options, Cancels cancels, Multi multi)
      : curl_(curl),
        options_(options),
        cancels_(std::move(cancels)),
        pid_(getpid()),
        multi_(std::move(multi)),
        random_(std::random_device()()) {
    const long most = options_.max_in_flight;
    curl_.multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, most);
    thread_ = std::jthread([this] { Run(); });
  }
  ~Loop() {
    {
      MutexLock lock(mu_);
      stopping_ = true;
    }
    curl_.multi_wakeup(multi_.get());
    thread_.join();
  }
  bool in_this_process() const { return pid_ == getpid(); }

  void Add(HttpRange range, Done done) {
    auto transfer =
        std::make_unique<HttpTransfer>(curl_, options_, std::move(range), std::move(done));
    {
      MutexLock lock(mu_);
      added_.push_back(std::move(transfer));
    }
    curl_.multi_wakeup(multi_.get());
  }

 private:
  using Transfers = std::vector<std::unique_ptr<HttpTransfer>>;
  static constexpr std::chrono::milliseconds kConnectTime{8};
  static constexpr std::chrono::milliseconds kAskTime{50};

  void Run() {
    while (TakeAdded()) {
      if (HasRequests() && cancels_ && cancels_()) CancelAll("the requests were cancelled");
      StartDue(Clock::now());
      int running = 0;
      curl_.multi_perform(multi_.get(), &running);
      TakeFinished();
      DropStalled(Clock::now());
      curl_.multi_poll(multi_.get(), nullptr, 0, MillisecondsToWait(Clock::now()), nullptr);
    }
    CancelAll("the HTTP client ends");
  }

  bool HasRequests() const { return !waiting_.empty() || !delayed_.empty() || !active_.empty(); }

  // False when the client ends.
  bool TakeAdded() {
    MutexLock lock(mu_);
    std::ranges::move(added_, std::back_inserter(waiting_));
    added_.clear();
    return !stopping_;
  }

  void StartDue(Clock::time_point now) {
    for (auto next = delayed_.begin(); next != delayed_.end() && HasRoom(now);) {
      if ((*next)->due() > now) {
        ++next;
        continue;
      }
      std::unique_ptr<HttpTransfer> transfer = std::move(*next);
      next = delayed_.erase(next);
      Start(std::move(transfer), now);
    }
    while (!waiting_.empty() && HasRoom(now)) {
      std::unique_ptr<HttpTransfer> transfer = std::move(waiting_.front());
      waiting_.pop_front();
      Start(std::move(transfer), now);
    }
  }

  void Start(std::unique_ptr<HttpTransfer> transfer, Clock::time_point now) {
    CURL* const easy = transfer->Start(now);
    if (easy == nullptr || curl_.multi_add_handle(multi_.get(), easy) != CURLM_OK) {
      return transfer->Complete(absl::ResourceExhaustedError("no memory for an HTTP request"));
    }
    active_.push_back(std::move(transfer));
  }

  // Few connections are made at once: a server drops those that find no place in the queue in front
  // of it (often of five), and the system asks again a second later.
  bool HasRoom(Clock::time_point now) const {
    constexpr int64_t kMostConnected = 4;
    if (active_.size() >= static_cast<size_t>(options_.max_in_flight)) return false;
    return std::ranges::count_if(active_, [&](const auto& transfer) {
             return transfer->ConnectedSince(now - kConnectTime);
           }) < kMostConnected;
  }

  void TakeFinished() {
    int num_left = 0;
    while (const CURLMsg* message = curl_.multi_info_read(multi_.get(), &num_left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;  // the message dies with its handle
      char* transfer = nullptr;
      curl_.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      Finish(reinterpret_cast<const HttpTransfer*>(transfer), code, /*stalled=*/false);
    }
  }

  void DropStalled(Clock::time_point now) {
    std::vector<const HttpTransfer*> stalled;
    for (const auto& transfer : active_) {
      if (transfer->IsStalled(now)) stalled.push_back(transfer.get());
    }
    for (const HttpTransfer* transfer : stalled) Finish(transfer, CURLE_OK, /*stalled=*/true);
  }

  void Finish(const HttpTransfer* wanted, CURLcode code, bool stalled) {
    const auto place = std::ranges::find(active_, wanted, &std::unique_ptr<HttpTransfer>::get);
    std::unique_ptr<HttpTransfer> transfer = std::move(*place);
    active_.erase(place);
    curl_.multi_remove_handle(multi_.get(), transfer->handle());
    const double chance = std::uniform_real_distribution<double>(0, 1)(random_);
    if (transfer->Finish(code, stalled, Clock::now(), chance)) {
      transfer->Complete(transfer->TakeOutcome());
    } else {
      delayed_.push_back(std::move(transfer));
    }
  }

  int MillisecondsToWait(Clock::time_point now) const {
    Clock::time_point until = now + std::chrono::hours(1);
    if (cancels_ && HasRequests()) until = now + kAskTime;
    for (const auto& transfer : active_) until = std::min(until, transfer->stall_check());
    if (HasRoom(now)) {
      if (!waiting_.empty()) return 0;
      for (const auto& transfer : delayed_) until = std::min(until, transfer->due());
    } else if (active_.size() < static_cast<size_t>(options_.max_in_flight)) {
      until = std::min(until, now + kConnectTime / 4);
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    return static_cast<int>(std::max<int64_t>(wait, 0));
  }

  void CancelAll(const char* message) {
    for (const auto& transfer : active_) {
      curl_.multi_remove_handle(multi_.get(), transfer->handle());
    }
    Transfers all;
    for (auto* const some : {&active_, &delayed_}) {
      std::ranges::move(*some, std::back_inserter(all));
      some->clear();
    }
    std::ranges::move(waiting_, std::back_inserter(all));
    waiting_.clear();
    for (const auto& transfer : all) {
      transfer->Complete(absl::CancelledError(message));
    }
  }

  const Libcurl& curl_;
  const HttpOptions options_;
  const Cancels cancels_;
  const pid_t pid_;
  const Multi multi_;  // of the thread; others only wake it

  // Of the thread.
  std::deque<std::unique_ptr<HttpTransfer>> waiting_;  // to be started, in order
  Transfers delayed_;                                  // to be started again when they are due
  Transfers active_;
  std::minstd_rand random_;

  Mutex mu_;
  Transfers added_ MILLRACE_GUARDED_BY(mu_);
  bool stopping_ MILLRACE_GUARDED_BY(mu_) = false;

  std::jthread thread_;  // last, as it uses the rest
};

HttpClient::HttpClient(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

HttpClient::~HttpClient() {
  if (!loop_->in_this_process()) static_cast<void>(loop_.release());
}

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Make(const HttpOptions& options,
                                                             Cancels cancels) {
  MILLRACE_ASSIGN_OR_RETURN(const Libcurl* const curl, SystemLibcurl());
  Multi multi(curl->multi_init(), curl->multi_cleanup);
  if (multi == nullptr) return absl::ResourceExhaustedError("no memory for HTTP");
  try {
    return std::unique_ptr<HttpClient>(new HttpClient(
        std::make_unique<Loop>(*curl, options, std::move(cancels), std::move(multi))));
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the system has no thread to give for HTTP");
  }
}

void HttpClient::Fetch(HttpRange range, Done done) {
  loop_->Add(std::move(range), std::move(done));
}

std::chrono::milliseconds BackoffAfter(int attempts, const HttpOptions& options, double chance) {
  std::chrono::milliseconds wait = options.backoff;
  for (int i = 1; i < attempts && wait < options.max_backoff; ++i) wait *= 2;
  wait = std::min(wait, options.max_backoff);
  return std::chrono::duration_cast<std::chrono::milliseconds>(wait * (0.5 + chance / 2));
}

}  // namespace millrace::readers
