#ifndef MILLRACE_CLI_LIVE_SLOW_ANSWER_H_
#define MILLRACE_CLI_LIVE_SLOW_ANSWER_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace millrace::cli {

// An answer of a running program that is on its way. Thread-compatible.
class SlowAnswer {
 public:
  // Asks the program at a socket by a line. Never blocks.
  //   NOT_FOUND          no process listens any more; the socket is removed
  //   DEADLINE_EXCEEDED  too many others wait for it
  //   other              the connection failed
  static absl::StatusOr<SlowAnswer> Ask(const std::string& path, std::string_view line);

  // Can be read when Take may go on.
  int fd() const { return socket_.get(); }
  // Takes what is there, and returns true once that is the whole answer. Never blocks.
  //   NOT_FOUND  the program has ended
  //   DATA_LOSS  the answer is too long
  //   other      the connection failed
  absl::StatusOr<bool> Take();
  // The part that was taken.
  std::string& text() { return text_; }

 private:
  SlowAnswer(std::string path, UniqueFd socket)
      : path_(std::move(path)), socket_(std::move(socket)) {}

  std::string path_;
  UniqueFd socket_;
  std::string text_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_SLOW_ANSWER_H_
