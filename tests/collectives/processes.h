#ifndef MILLRACE_TESTS_COLLECTIVES_PROCESSES_H_
#define MILLRACE_TESTS_COLLECTIVES_PROCESSES_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>  // NOLINT: kill is POSIX
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::collectives {

// A forked process that runs a body and says what came of it. Call it while this process has one
// thread.
class Process {
 public:
  explicit Process(const std::function<std::string()>& body) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    EXPECT_GE(pid_, 0);
    if (pid_ == 0) {
      ::close(ends[0]);
      const std::string said = body();
      const bool whole =
          ::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
      ::_exit(whole ? 0 : 1);
    }
    ::close(ends[1]);
    said_ = ends[0];
  }
  ~Process() {
    Kill();
    ::close(said_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Blocks until it has ended; what it said, nothing when it was killed.
  std::string Await() {
    std::string said;
    char bytes[4096];
    for (ssize_t count = 0; (count = ::read(said_, bytes, sizeof(bytes))) > 0;) {
      said.append(bytes, static_cast<size_t>(count));
    }
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return said;
  }
  // Readable once it has said something or has ended.
  int fd() const { return said_; }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int said_ = -1;
};

// Takes `port` for this process until it ends, among all tests of this machine: by the name of a
// socket that the kernel gives to one only. tests/free_port.py uses the same names.
inline bool Reserve(int port) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // A leading zero: no file, and gone with the process.
  const std::string text = "millrace-test-port-" + std::to_string(port);
  std::copy(text.begin(), text.end(), name.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&name), size) == 0) return true;
  ::close(fd);
  return false;
}

// A port of the loopback interface that nobody has at this moment and no other test gets, outside
// of those that the kernel gives away by itself.
inline int FreePort() {
  static int next = 20000 + static_cast<int>(::getpid() % 10000);
  while (true) {
    next = next >= 32000 ? 20000 : next + 1;
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(next));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const bool free = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    if (free && Reserve(next)) return next;
  }
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_PROCESSES_H_
