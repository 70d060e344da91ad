#ifndef MILLRACE_CLI_LIVE_FOLDER_H_
#define MILLRACE_CLI_LIVE_FOLDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// The folder in which running programs of this user have a socket each, of the name
// "PID-NAME.sock", that answers with the program's figures (LiveServer). A socket has this name
// only while, or after, a process listens on it.

namespace millrace::cli {

// Returns the folder, which is made if it is missing: "millrace" in $XDG_RUNTIME_DIR or
// /run/user/UID, whichever exists first and is this user's; else /tmp/millrace-UID.
//   NOT_FOUND          there is no place for it
//   PERMISSION_DENIED  another user owns it, others may look into it, or it is no folder
//   other              it cannot be made
absl::StatusOr<std::string> LiveFolder();
// The same with `runtime`, which may be null, in the place of $XDG_RUNTIME_DIR, and below `root` in
// the place of "/" (tests).
absl::StatusOr<std::string> LiveFolder(const char* runtime, const std::string& root);

// A socket of the folder.
struct LiveSocket {
  int64_t pid = 0;
  std::string name;
  std::string path;
};
std::string SocketPath(std::string_view folder, int64_t pid, std::string_view name);
// The sockets of a folder, ascending by pid; those of dead processes may be among them.
std::vector<LiveSocket> ListSockets(const std::string& folder);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_FOLDER_H_
