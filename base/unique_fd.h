#ifndef MILLRACE_BASE_UNIQUE_FD_H_
#define MILLRACE_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace millrace {

// Owns a file descriptor and closes it. Thread-compatible.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor up without closing it.
  int Release() { return std::exchange(fd_, -1); }
  // Closes the descriptor now. The outcome of close is ignored: only a writer could use it, and a
  // writer calls fsync first.
  void Reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_UNIQUE_FD_H_
