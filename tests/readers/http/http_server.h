#ifndef MILLRACE_TESTS_READERS_HTTP_HTTP_SERVER_H_
#define MILLRACE_TESTS_READERS_HTTP_HTTP_SERVER_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"

// A web server that does what it is told, wrong things among them. It has no clock: what is slow is
// slow until the client goes away.

namespace millrace::readers {

// A listening socket on a free port of this machine.
inline UniqueFd Listen(uint16_t* port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(fd.get(), 64), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

// A request as it came, and how to answer it.
class Exchange {
 public:
  Exchange(int fd, std::string request) : fd_(fd), request_(std::move(request)) {}

  const std::string& request() const { return request_; }
  // The first and the last byte that the request asks for.
  std::pair<uint64_t, uint64_t> Range() const {
    const size_t at = request_.find("Range: bytes=") + 13;
    const size_t dash = request_.find('-', at);
    return {std::stoull(request_.substr(at)), std::stoull(request_.substr(dash + 1))};
  }
  // Waits for another request on the connection; false when the client is gone.
  bool ReceiveNext() {
    request_.clear();
    char byte;
    while (!request_.ends_with("\r\n\r\n") && ::recv(fd_, &byte, 1, 0) > 0) {
      request_.push_back(byte);
    }
    return request_.ends_with("\r\n\r\n");
  }
  // False when the client is gone.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void Reset() {
    const linger now = {1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  void WaitUntilClientIsGone() {
    char byte;
    while (::recv(fd_, &byte, 1, 0) > 0) {
    }
  }

 private:
  const int fd_;
  std::string request_;
};

using Answer = std::function<void(Exchange&)>;

// One request per connection, one after the other: number i gets answer i, the last one all others.
class ScriptServer {
 public:
  explicit ScriptServer(std::vector<Answer> answers)
      : answers_(std::move(answers)), listener_(Listen(&port_)), thread_([this] { Serve(); }) {}
  ~ScriptServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);  // ends accept
    thread_.join();
  }

  std::string Url(std::string_view path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + std::string(path);
  }
  std::vector<std::string> requests() const {
    MutexLock lock(mu_);
    return requests_;
  }

 private:
  void Serve() {
    while (true) {
      const UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
      if (!client.valid()) return;
      Exchange exchange(client.get(), "");
      if (!exchange.ReceiveNext()) continue;
      size_t number = 0;
      {
        MutexLock lock(mu_);
        number = std::min(requests_.size(), answers_.size() - 1);
        requests_.push_back(exchange.request());
      }
      answers_[number](exchange);
    }
  }

  const std::vector<Answer> answers_;
  uint16_t port_ = 0;
  const UniqueFd listener_;
  mutable Mutex mu_;
  std::vector<std::string> requests_ MILLRACE_GUARDED_BY(mu_);
  std::thread thread_;
};

// "HTTP/1.1 206 ..." and headers for bytes first to last of a file of `total`.
inline std::string PartHead(uint64_t first, uint64_t last, uint64_t total,
                            std::string_view etag = "\"v1\"") {
  return "HTTP/1.1 206 Partial Content\r\nConnection: close\r\nETag: " + std::string(etag) +
         "\r\nContent-Length: " + std::to_string(last - first + 1) + "\r\nContent-Range: bytes " +
         std::to_string(first) + "-" + std::to_string(last) + "/" + std::to_string(total) +
         "\r\n\r\n";
}

// Sends what is asked for, as a good server does.
inline Answer Good(std::string bytes, std::string etag = "\"v1\"") {
  return [=](Exchange& exchange) {
    const auto [first, last] = exchange.Range();
    exchange.Send(PartHead(first, last, bytes.size(), etag));
    exchange.Send(std::string_view(bytes).substr(first, last - first + 1));
  };
}

// `head` is the status line and headers without the last empty line.
inline Answer Says(std::string head, std::string body = "") {
  return [=](Exchange& exchange) {
    exchange.Send(head + "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
                  "\r\n\r\n" + body);
  };
}

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_HTTP_HTTP_SERVER_H_
