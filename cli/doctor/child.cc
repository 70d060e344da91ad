#include "cli/doctor/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"

namespace millrace::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTurnMs = 100;
// A child that has said all, or was killed, may take so long to end.
constexpr auto kEndLimit = std::chrono::seconds(2);
constexpr int kEndTurnMs = 10;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno != EINTR) return;
    if (wrote > 0) text.remove_prefix(static_cast<size_t>(wrote));
  }
}

// A reader of this program's output would wait for a child that is left behind.
void LeaveStandardStreams() {
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0) return;
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
  if (null > STDERR_FILENO) ::close(null);
}

[[noreturn]] void RunChild(
    const std::function<void(const std::function<void(std::string_view)>&)>& work, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  LeaveStandardStreams();
  try {
    work([out](std::string_view line) { WriteAll(out, std::string(line) + "\n"); });
  } catch (...) {
    ::abort();
  }
  ::_exit(0);
}

// Returns the status of waitpid; nullopt: the child has not ended in time.
std::optional<int> WaitForEnd(pid_t child) {
  const auto start = Clock::now();
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if ((ended < 0 && errno != EINTR) || Clock::now() - start > kEndLimit) return std::nullopt;
    ::poll(nullptr, 0, kEndTurnMs);
  }
}

// The lines of a child as they come.
class ChildLines {
 public:
  explicit ChildLines(int fd) : fd_(fd) {}

  const std::string& last() const { return last_; }

  // Reads what there is; false at the end.
  bool Read() {
    std::array<char, 1 << 14> bytes;
    const ssize_t got = ::read(fd_, bytes.data(), bytes.size());
    if (got < 0) return errno == EINTR;
    if (got == 0) return false;
    begun_.append(bytes.data(), static_cast<size_t>(got));
    const size_t end = begun_.rfind('\n');
    if (end == std::string::npos) return true;
    const size_t before = end == 0 ? std::string::npos : begun_.rfind('\n', end - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    last_ = begun_.substr(begin, end - begin);
    begun_.erase(0, end + 1);
    return true;
  }

 private:
  const int fd_;
  std::string begun_;  // the bytes behind the last line end
  std::string last_;
};

// Returns the time after which the child was given up; 0: its lines have ended.
double Follow(ChildLines& lines, int fd, const ChildWatch& watch) {
  auto heard = Clock::now();
  while (true) {
    pollfd waits = {.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waits, 1, kTurnMs);
    if (watch.tick) watch.tick();
    if (ready > 0) {
      if (!lines.Read()) return 0;
      heard = Clock::now();
    } else if (ready == 0) {
      const double silent = SecondsSince(heard);
      if (watch.gives_up(lines.last(), silent)) return silent;
    }
  }
}

}  // namespace

absl::StatusOr<ChildEnd> RunInChild(
    const std::function<void(const std::function<void(std::string_view line)>& send)>& work,
    const ChildWatch& watch) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe", "for a child");
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return ErrnoStatus(errno, "fork", "for a child");
  if (child == 0) RunChild(work, out.get());
  out.Reset();
  ChildLines lines(in.get());
  ChildEnd end;
  end.silent_seconds = Follow(lines, in.get(), watch);
  end.last_line = lines.last();
  const bool is_given_up = end.silent_seconds > 0;
  if (is_given_up) ::kill(child, SIGKILL);
  const std::optional<int> status = WaitForEnd(child);
  if (!is_given_up && status && WIFSIGNALED(*status)) end.signal = WTERMSIG(*status);
  return end;
}

}  // namespace millrace::cli::doctor
