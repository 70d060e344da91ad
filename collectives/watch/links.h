#ifndef MILLRACE_COLLECTIVES_WATCH_LINKS_H_
#define MILLRACE_COLLECTIVES_WATCH_LINKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/net/socket.h"
#include "collectives/watch/progress_board.h"

namespace millrace::collectives {

// Where rank 0 listens, told by a broadcast. A leader that has connected sends a WatchdogGreeting
// and its ranks as 32-bit numbers; rank 0 answers with the token's complement; and the leader,
// which may have given this connection up for one to another address, says the token again.
struct WatchdogRendezvous {
  struct Address {
    std::array<char, 32> bytes{};  // as collectives/net/socket.h's
    uint64_t size = 0;             // 0: none
  };
  std::array<Address, kMaxOwnAddresses> addresses{};  // none: rank 0 could not listen
  uint64_t token = 0;                                 // tells this job's links from others'
};
struct WatchdogGreeting {
  uint64_t token = 0;
  uint64_t num_ranks = 0;
};

// Keeps the boards of several hosts alike: the lowest rank of each host tells rank 0 over TCP what
// the pages of its host say, and rank 0 tells it all the others. Nothing here waits for a peer but
// Make and Leave, which have a limit. Thread-compatible.
class WatchdogLinks {
 public:
  // Collective over the whole job. `leads`: this is the lowest rank of its host; `local_ranks` are
  // the host's. Leaves `*links` null where there is one host only, or this rank does not lead.
  // `address`: where rank 0's host is reached; empty: all its addresses are tried but the loopback.
  //   UNAVAILABLE  the hosts cannot reach each other; on every rank
  static absl::Status Make(Communicator& communicator, bool leads, std::vector<int> local_ranks,
                           const std::string& address, std::unique_ptr<WatchdogLinks>* links);
  virtual ~WatchdogLinks() = default;

  // Sends the pages of this host, takes those of the others as far as they have come. A host that
  // has hung up while ranks of it were here is cut off: the board gets that verdict.
  virtual void Exchange(ProgressBoard& board) = 0;
  // Tells the others that the ranks of this host have left, once they all have (or after two
  // seconds).
  virtual void Leave(ProgressBoard& board) = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCH_LINKS_H_
