#include "collectives/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives {
namespace {

using std::chrono::steady_clock;

// The sockaddr in `bytes`, which may not be aligned as one.
sockaddr_storage Unpack(std::string_view bytes) {
  sockaddr_storage address{};
  std::memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof(address)));
  return address;
}

std::string Pack(const sockaddr* address, size_t size) {
  return std::string(reinterpret_cast<const char*>(address), size);
}

// `address` with `port`; empty for a family that is not IP's.
std::string WithPort(const sockaddr* address, int port) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof(v4));
    v4.sin_port = htons(static_cast<uint16_t>(port));
    return Pack(reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof(v6));
    v6.sin6_port = htons(static_cast<uint16_t>(port));
    return Pack(reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
  }
  return "";
}

// True for addresses that mean something else, or nothing, to another host.
bool IsLocal(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof(v4));
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127 || v4.sin_addr.s_addr == 0;
  }
  if (address->sa_family != AF_INET6) return true;
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof(v6));
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ||
         IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

// The IPv4 address of the loopback interface that `host` is; empty: none.
std::string LoopbackOf(const std::string& host, int port) {
  if (host == "localhost") return LoopbackAddress(port);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  // As getaddrinfo reads it, for those who connect: 127.1 too.
  const bool numeric = ::inet_aton(host.c_str(), &v4.sin_addr) != 0;
  if (!numeric || (ntohl(v4.sin_addr.s_addr) >> 24) != 127) return "";
  return WithPort(reinterpret_cast<const sockaddr*>(&v4), port);
}

// For descriptors that run out, what to do.
absl::Status SocketError(int error, const char* call, const std::string& what) {
  if (error != EMFILE && error != ENFILE) return ErrnoStatus(error, call, what);
  return absl::ResourceExhaustedError(
      absl::StrCat(call, " ", what, ": no file descriptors are left: raise ulimit -n"));
}

absl::StatusOr<Socket> ListenOn(const sockaddr* address, size_t size) {
  Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return SocketError(errno, "socket", "TCP");
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // All interfaces of both families with one socket.
  if (address->sa_family == AF_INET6) {
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  const std::string text = AddressText(Pack(address, size));
  if (::bind(socket.fd(), address, static_cast<socklen_t>(size)) != 0 ||
      ::listen(socket.fd(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat(
          "address ", text, " is taken by another program, or by a run that has not ended"));
    }
    return ErrnoStatus(errno, "bind", text);
  }
  return socket;
}

}  // namespace

Deadline After(std::chrono::nanoseconds timeout) {
  const Deadline now = steady_clock::now();
  return timeout > Deadline::max() - now ? Deadline::max() : now + timeout;
}

int PollMs(Deadline deadline) {
  const auto left = deadline - steady_clock::now();
  if (left <= left.zero()) return 0;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<int64_t>(ms, 1 << 30));
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  HostPort place;
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == text.npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool good = !host.empty() && (bracketed || host.find(':') == host.npos) &&
                    absl::SimpleAtoi(ToAbsl(text.substr(colon + 1)), &place.port) &&
                    place.port >= 1 && place.port <= 65535;
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", ToAbsl(text), "' is no HOST:PORT (an IPv6 address stands in brackets)"));
  }
  place.host = host;
  return place;
}

absl::StatusOr<std::vector<std::string>> Resolve(const HostPort& place) {
  // As Listen takes it, also where no file of hosts knows localhost.
  std::string loopback = LoopbackOf(place.host, place.port);
  if (!loopback.empty()) return std::vector<std::string>{std::move(loopback)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      ::getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("host '", place.host, "': ", ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<std::string> addresses;
  for (; list != nullptr; list = list->ai_next) {
    addresses.push_back(Pack(list->ai_addr, list->ai_addrlen));
  }
  return addresses;
}

absl::StatusOr<Socket> Listen(const std::string& host, int port) {
  if (const std::string address = LoopbackOf(host, port); !address.empty()) {
    const sockaddr_storage storage = Unpack(address);
    return ListenOn(reinterpret_cast<const sockaddr*>(&storage), address.size());
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  v6.sin6_addr = host == "::1" ? in6addr_loopback : in6addr_any;
  absl::StatusOr<Socket> both = ListenOn(reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
  if (both.ok() || absl::IsAlreadyExists(both.status()) || host == "::1") return both;
  sockaddr_in v4{};  // a host without IPv6
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  return ListenOn(reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
}

absl::StatusOr<int> PortOf(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "getsockname", "TCP");
  }
  // Both families have the port at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<Socket> Accept(const Socket& listener) {
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int on = 1;
  if (socket.valid()) {
    ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return socket;
  }
  // The listener stays readable after these: to go on as if nobody had come would be a busy loop.
  for (const int lasting : {EMFILE, ENFILE, ENOBUFS, ENOMEM, EBADF, EINVAL}) {
    if (errno == lasting) return SocketError(lasting, "accept", "connection");
  }
  // Nobody, or one that has gone again: accept tells errors of the network of that connection too.
  return socket;
}

absl::StatusOr<Socket> Connect(const std::string& address, Deadline deadline) {
  const sockaddr_storage storage = Unpack(address);
  const std::string text = AddressText(address);
  Socket socket(::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return SocketError(errno, "socket", text);
  const int on = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto* target = reinterpret_cast<const sockaddr*>(&storage);
  if (::connect(socket.fd(), target, static_cast<socklen_t>(address.size())) != 0) {
    if (errno != EINPROGRESS) return ErrnoStatus(errno, "connect", text);
    if (!WaitFor(socket, POLLOUT, deadline)) {
      return absl::DeadlineExceededError(absl::StrCat(text, ": connect: no answer"));
    }
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return ErrnoStatus(error, "connect", text);
  }
  // Where nobody listens on a port that the kernel may give away, a socket can meet itself.
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size);
  if (AddressText(Pack(reinterpret_cast<sockaddr*>(&own), size)) == text) {
    return ErrnoStatus(ECONNREFUSED, "connect", text);
  }
  return socket;
}

bool WaitFor(const Socket& socket, short events, Deadline deadline) {
  pollfd waited{socket.fd(), events, 0};
  while (true) {
    const int count = ::poll(&waited, 1, PollMs(deadline));
    if (count > 0) return true;
    if (steady_clock::now() >= deadline) return false;
  }
}

absl::Status SendAll(const Socket& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!WaitFor(socket, POLLOUT, deadline)) return absl::DeadlineExceededError("send");
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrnoStatus(errno, "send", "connection").message());
    }
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(const Socket& socket, char* bytes, size_t count, Deadline deadline) {
  while (count > 0) {
    const ssize_t received = ::recv(socket.fd(), bytes, count, 0);
    if (received > 0) {
      bytes += received;
      count -= static_cast<size_t>(received);
    } else if (received == 0) {
      return absl::UnavailableError("the connection was closed");
    } else if (errno == EAGAIN) {
      if (!WaitFor(socket, POLLIN, deadline)) return absl::DeadlineExceededError("receive");
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrnoStatus(errno, "receive", "connection").message());
    }
  }
  return absl::OkStatus();
}

namespace {

// Asks the kernel which address of ours a packet to `towards` would carry; sends none.
std::string RouteTo(const std::string& towards, int port) {
  const auto place = ParseHostPort(towards);
  if (!place.ok()) return "";
  const auto addresses = Resolve(*place);
  if (!addresses.ok()) return "";
  for (const std::string& address : *addresses) {
    const sockaddr_storage storage = Unpack(address);
    const Socket socket(::socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    if (socket.valid() &&
        ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&storage),
                  static_cast<socklen_t>(address.size())) == 0 &&
        ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        !IsLocal(reinterpret_cast<const sockaddr*>(&own))) {
      return WithPort(reinterpret_cast<const sockaddr*>(&own), port);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> OwnAddresses(const std::string& towards, int port) {
  std::vector<std::string> addresses;
  const auto add = [&addresses](std::string address) {
    const bool known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    if (!address.empty() && !known && addresses.size() < kMaxOwnAddresses) {
      addresses.push_back(std::move(address));
    }
  };
  add(RouteTo(towards, port));
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (; list != nullptr; list = list->ifa_next) {
    const bool up = list->ifa_addr != nullptr && (list->ifa_flags & IFF_UP) != 0;
    if (up && !IsLocal(list->ifa_addr)) add(WithPort(list->ifa_addr, port));
  }
  return addresses;
}

std::string LoopbackAddress(int port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return Pack(reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
}

std::string NetworkIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  // Containers of one kernel have loopback interfaces of their own.
  char space[64] = {};
  if (::readlink("/proc/self/ns/net", space, sizeof(space) - 1) < 0) space[0] = '\0';
  return absl::StrCat(boot, " ", name, " ", space);
}

std::string AddressText(std::string_view address) {
  const sockaddr_storage storage = Unpack(address);
  char text[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return absl::StrCat(text, ":", ntohs(v4->sin_port));
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  return absl::StrCat("[", text, "]:", ntohs(v6->sin6_port));
}

uint64_t RandomNonce() {
  uint64_t nonce = 0;
  // Cannot fail for so few bytes once the system is up; the clock and the process id are what is
  // left where it does not exist.
  if (::getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce)) {
    nonce =
        static_cast<uint64_t>(steady_clock::now().time_since_epoch().count()) * 0x9e3779b97f4a7c15 +
        static_cast<uint64_t>(::getpid());
  }
  return nonce == 0 ? 1 : nonce;
}

}  // namespace millrace::collectives
