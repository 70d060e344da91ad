#include "trainer/server/cluster.h"

#include "absl/strings/str_cat.h"
#include "collectives/peer_lost.h"

namespace millrace::trainer {

std::string NameOfServer(const ServerCluster& cluster, int server) {
  return absl::StrCat("server ", server, " at ", cluster.places[server]);
}

absl::Status LostError(int rank, const std::string& why) {
  absl::Status status = absl::UnavailableError(why);
  collectives::AddPeerLost(status, {.rank = rank});
  return status;
}

absl::Status ServerLostError(const ServerCluster& cluster, int server, const std::string& why,
                             const std::string& checkpoint) {
  const std::string next = checkpoint.empty()
                               ? "there is no checkpoint"
                               : absl::StrCat("--resume continues from ", checkpoint);
  return LostError(cluster.workers + server,
                   absl::StrCat(NameOfServer(cluster, server), " is lost: ", why, "; ", next));
}

}  // namespace millrace::trainer
