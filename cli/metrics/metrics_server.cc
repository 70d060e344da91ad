#include "cli/metrics/metrics_server.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/metric_sum.h"
#include "base/metric_table.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace millrace::cli {
namespace {

constexpr unsigned kConnections = 32;
constexpr size_t kConnectionBytes = 16 << 10;
constexpr unsigned kIdleSeconds = 10;
constexpr int kMaxPort = 65535;
// Of Prometheus' text format.
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kPaths = "/metrics\n/healthz\n/readyz\n";

std::string TextOf(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Resolve(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (error != 0) return absl::InvalidArgumentError(gai_strerror(error));
  return Addresses(found);
}

void SetPort(sockaddr* address, int port) {
  const auto in_network_order = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = in_network_order;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = in_network_order;
  }
}

absl::StatusOr<UniqueFd> Listen(const ListenAddress& address) {
  MILLRACE_ASSIGN_OR_RETURN(const Addresses list, Resolve(address));
  SetPort(list->ai_addr, address.port);
  UniqueFd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "socket", "a server");
  // A port whose last connections are not yet forgotten is free.
  const int yes = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) return absl::AlreadyExistsError("the port is in use");
    return ErrnoStatus(error, "listen", "the address");
  }
  return fd;
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const bool is_v6 = address.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                     : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

MHD_Result Send(MHD_Connection* connection, const MetricsServer::Answer& answer) {
  // The bytes are copied: MHD only reads them.
  MHD_Response* const response = MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  const std::string type(answer.type);
  (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type.c_str());
  if (answer.code == MHD_HTTP_METHOD_NOT_ALLOWED) {
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(answer.code), response);
  MHD_destroy_response(response);
  return queued;
}

// Called by MHD's thread when the head of a request is there. A body is not read.
MHD_Result OnRequest(void* server, MHD_Connection* connection, const char* url, const char* method,
                     const char* /*version*/, const char* /*body*/, size_t* /*body_size*/,
                     void** /*state*/) {
  MHD_Result result = MHD_NO;
  (void)Caught([&] {  // nothing may be thrown through C
    const std::string_view verb(method);
    if (verb == MHD_HTTP_METHOD_GET || verb == MHD_HTTP_METHOD_HEAD) {
      result = Send(connection, static_cast<const MetricsServer*>(server)->AnswerTo(url));
    } else {
      result = Send(connection, {.code = MHD_HTTP_METHOD_NOT_ALLOWED, .body = "GET or HEAD\n"});
    }
  });
  return result;
}

// Faults of clients are no news.
void DropMessage(void* /*server*/, const char* /*format*/, va_list /*arguments*/) {}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  ListenAddress address{.host = "127.0.0.1"};
  std::string_view port = text;
  if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    address.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (address.host.starts_with('[') && address.host.ends_with(']')) {
      address.host = address.host.substr(1, address.host.size() - 2);
    } else if (address.host.find(':') != std::string::npos) {
      port = {};
    }
  }
  const bool is_port = absl::SimpleAtoi(ToAbsl(port), &address.port) && address.port >= 0 &&
                       address.port <= kMaxPort;
  if (address.host.empty() || !is_port) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", ToAbsl(text), "' is no [HOST:]PORT, as 9100, 0.0.0.0:9100 or [::]:9100"));
  }
  return address;
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const ListenAddress& address, std::shared_ptr<Metrics> metrics) {
  absl::StatusOr<UniqueFd> fd = Listen(address);
  if (!fd.ok()) return Annotate(fd.status(), TextOf(address.host, address.port));
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(metrics)));
  const std::string place = TextOf(address.host, PortOf(fd->get()));
  server->url_ = absl::StrCat("http://", place, "/metrics");
  server->daemon_ = MHD_start_daemon(
      MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG, 0, nullptr, nullptr,
      &OnRequest, server.get(), MHD_OPTION_EXTERNAL_LOGGER, &DropMessage, nullptr,
      MHD_OPTION_LISTEN_SOCKET, fd->get(), MHD_OPTION_CONNECTION_LIMIT, kConnections,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_CONNECTION_TIMEOUT,
      kIdleSeconds, MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(place, ": no thread for the server"));
  }
  (void)fd->Release();  // MHD closes it
  return server;
}

MetricsServer::~MetricsServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

MetricsServer::Answer MetricsServer::AnswerTo(std::string_view path) const {
  if (path == "/metrics") return {.type = kMetricsType, .body = metrics_->PrometheusText()};
  if (path == "/healthz") {
    if (SumOf(*metrics_, metric::kRanksLost) == 0) return {.body = "ok\n"};
    return {.code = MHD_HTTP_SERVICE_UNAVAILABLE, .body = "a rank is given up\n"};
  }
  if (path == "/readyz") {
    if (SumOf(*metrics_, metric::kBatches) > 0) return {.body = "ready\n"};
    return {.code = MHD_HTTP_SERVICE_UNAVAILABLE, .body = "no batch was delivered yet\n"};
  }
  if (path == "/") return {.body = std::string(kPaths)};
  return {.code = MHD_HTTP_NOT_FOUND, .body = absl::StrCat("there are:\n", ToAbsl(kPaths))};
}

absl::StatusOr<std::shared_ptr<void>> ServeMetrics(const std::string& address, int rank,
                                                   std::shared_ptr<Metrics> metrics) {
  MILLRACE_ASSIGN_OR_RETURN(ListenAddress place, ParseListenAddress(address));
  if (place.port != 0) place.port += rank;
  if (place.port > kMaxPort) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": there is no port ", place.port,
                                                   ", which would be of rank ", rank,
                                                   " of this host"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<MetricsServer> server,
                            MetricsServer::Start(place, std::move(metrics)));
  std::fprintf(stderr, "millrace: metrics: %s\n", server->url().c_str());
  return std::shared_ptr<void>(std::move(server));
}

}  // namespace millrace::cli
