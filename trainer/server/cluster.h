#ifndef MILLRACE_TRAINER_SERVER_CLUSTER_H_
#define MILLRACE_TRAINER_SERVER_CLUSTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace millrace::trainer {

// The processes of a training on servers, as each of them sees them.
struct ServerCluster {
  int workers = 1;
  std::vector<std::string> places;  // of the servers, for MessageConnection::Connect
  bool is_server = false;           // true if this process is a server
  int index = 0;                    // of this process among the workers, or among the servers

  int servers() const { return static_cast<int>(places.size()); }
};

// "server 1 at 127.0.0.1:4000".
std::string NameOfServer(const ServerCluster& cluster, int server);

// UNAVAILABLE "server 1 at ... is lost: WHY", with collectives::PeerLost, whose rank counts the
// servers after the workers. `checkpoint`, the newest, is named; empty: there is none.
absl::Status ServerLostError(const ServerCluster& cluster, int server, const std::string& why,
                             const std::string& checkpoint);

// UNAVAILABLE with `why` as its text, and collectives::PeerLost of `rank`.
absl::Status LostError(int rank, const std::string& why);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_CLUSTER_H_
