#ifndef MILLRACE_CLI_METRICS_METRICS_SERVER_H_
#define MILLRACE_CLI_METRICS_METRICS_SERVER_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/metrics.h"

struct MHD_Daemon;

namespace millrace::cli {

// The place where a server listens.
struct ListenAddress {
  std::string host;  // a name or a number
  int port = 0;      // 0: the system chooses one
};
// Reads "PORT", which is of 127.0.0.1, "HOST:PORT" or "[HOST]:PORT".
//   INVALID_ARGUMENT  it is none of these
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

// Serves a registry over HTTP, with libmicrohttpd:
//   /metrics  all metrics in Prometheus' text format
//   /healthz  200, or 503 once a rank is given up
//   /readyz   200 once the first batch was delivered, 503 before
// One thread answers all clients. At most 32 may be connected at a time, each with 16 KiB of memory
// for its requests, and one that says nothing for 10 seconds is let go. Thread-safe.
class MetricsServer {
 public:
  // Errors name the address.
  //   INVALID_ARGUMENT    the host is not known
  //   ALREADY_EXISTS      the port is in use
  //   PERMISSION_DENIED   the port is not for this user
  //   RESOURCE_EXHAUSTED  no thread or memory for the server
  //   other               the address is none of this host, ...
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const ListenAddress& address,
                                                              std::shared_ptr<Metrics> metrics);
  ~MetricsServer();  // lets its clients go, and ends its thread
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // "http://127.0.0.1:9100/metrics".
  std::string url() const { return url_; }

  // An answer of the server.
  struct Answer {
    int code = 200;
    std::string_view type = "text/plain; charset=utf-8";
    std::string body;
  };
  Answer AnswerTo(std::string_view path) const;

 private:
  explicit MetricsServer(std::shared_ptr<Metrics> metrics) : metrics_(std::move(metrics)) {}

  // Constant after construction.
  const std::shared_ptr<Metrics> metrics_;
  std::string url_;
  MHD_Daemon* daemon_ = nullptr;
};

// The MetricsServing of programs that have a server: its port is `rank` behind that of `address`.
// Says on standard error where it is.
absl::StatusOr<std::shared_ptr<void>> ServeMetrics(const std::string& address, int rank,
                                                   std::shared_ptr<Metrics> metrics);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_METRICS_METRICS_SERVER_H_
