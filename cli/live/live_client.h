#ifndef MILLRACE_CLI_LIVE_LIVE_CLIENT_H_
#define MILLRACE_CLI_LIVE_LIVE_CLIENT_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/live/folder.h"
#include "cli/live/snapshot.h"

namespace millrace::cli {

// Asks the program at a socket for its figures, and returns the answer as it came. Blocks no longer
// than `limit`.
//   NOT_FOUND          no process listens any more; the socket is removed
//   DEADLINE_EXCEEDED  the process does not answer: it may be stopped
//   DATA_LOSS          the answer is too long
//   other              the connection failed
absl::StatusOr<std::string> AskText(const std::string& path,
                                    std::chrono::milliseconds limit = std::chrono::seconds(2));
// The same, read.
absl::StatusOr<Snapshot> Ask(const std::string& path);

// A program that runs, and its figures or the reason for which there are none.
struct Running {
  LiveSocket socket;
  absl::StatusOr<Snapshot> snapshot;
};
// Asks all programs of a folder, and removes the sockets of dead processes.
std::vector<Running> AskAll(const std::string& folder);

// Removes the sockets of dead processes without asking the others.
void RemoveStale(const std::string& folder);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_LIVE_CLIENT_H_
