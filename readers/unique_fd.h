#ifndef MILLRACE_READERS_UNIQUE_FD_H_
#define MILLRACE_READERS_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace millrace::readers {

// Owns a file descriptor and closes it. Internal.
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
  int Release() { return std::exchange(fd_, -1); }
  // Closes now. What close reports is of use only to a writer, which calls fsync first.
  void Reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_UNIQUE_FD_H_
