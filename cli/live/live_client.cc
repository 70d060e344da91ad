#include "cli/live/live_client.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "base/status.h"
#include "cli/live/slow_answer.h"

namespace millrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTurn{10};
constexpr std::string_view kFigures = "figures\n";

// The system does not tell when a queue has room again.
absl::StatusOr<SlowAnswer> AskUntil(const std::string& path, Clock::time_point end) {
  while (true) {
    absl::StatusOr<SlowAnswer> answer = SlowAnswer::Ask(path, kFigures);
    if (!absl::IsDeadlineExceeded(answer.status()) || Clock::now() >= end) return answer;
    std::this_thread::sleep_for(kTurn);
  }
}

// Waits until there is something to read.
absl::Status Await(int socket, Clock::time_point end, const std::string& path) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd watched{socket, POLLIN, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::max<int64_t>(0, left)));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError(path + ": does not answer");
    if (errno != EINTR) return ErrnoStatus(errno, "poll", path);
  }
}

}  // namespace

absl::StatusOr<std::string> AskText(const std::string& path, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  MILLRACE_ASSIGN_OR_RETURN(SlowAnswer answer, AskUntil(path, end));
  while (true) {
    MILLRACE_RETURN_IF_ERROR(Await(answer.fd(), end, path));
    MILLRACE_ASSIGN_OR_RETURN(const bool is_whole, answer.Take());
    if (is_whole) return std::move(answer.text());
  }
}

absl::StatusOr<Snapshot> Ask(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, AskText(path));
  auto snapshot = SnapshotOfJson(text);
  if (!snapshot.ok()) return Annotate(snapshot.status(), path);
  return snapshot;
}

std::vector<Running> AskAll(const std::string& folder) {
  std::vector<Running> running;
  for (LiveSocket& socket : ListSockets(folder)) {
    absl::StatusOr<Snapshot> snapshot = Ask(socket.path);
    if (absl::IsNotFound(snapshot.status())) continue;
    running.push_back({std::move(socket), std::move(snapshot)});
  }
  return running;
}

void RemoveStale(const std::string& folder) {
  for (const LiveSocket& socket : ListSockets(folder)) {
    const bool is_gone = ::kill(static_cast<pid_t>(socket.pid), 0) != 0 && errno == ESRCH;
    if (is_gone) (void)SlowAnswer::Ask(socket.path, kFigures);  // which removes it
  }
}

}  // namespace millrace::cli
