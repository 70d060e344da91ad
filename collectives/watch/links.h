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
// and its ranks as 32-bit numbers; rank 0 answers with the nonce's complement; the leader then
// repeats the nonce, unless it has given this connection up for one to another address.
struct WatchdogRendezvous {
  struct Address {
    std::array<char, 32> bytes{};  // an address of collectives/net/socket.h
    uint64_t size = 0;             // 0: none
  };
  std::array<Address, kMaxOwnAddresses> addresses{};  // all empty: rank 0 could not listen
  uint64_t nonce = 0;                                 // tells this job's links from others'
};
struct WatchdogGreeting {
  uint64_t nonce = 0;
  uint64_t num_ranks = 0;
};

// Keeps the boards of several hosts alike: the lowest rank of each host sends the pages of its host
// to rank 0 over TCP, and rank 0 sends it all others. Only Make and Leave wait for peers, with a
// limit. Thread-compatible.
class WatchdogLinks {
 public:
  // Collective over the whole job. `leads`: true if this is the lowest rank of its host;
  // `local_ranks`: the ranks of the host. Leaves `*links` null if there is only one host, or this
  // rank does not lead. `address`: of rank 0's host; empty: all its addresses but the loopback are
  // tried.
  //   UNAVAILABLE  the hosts cannot reach each other; on every rank
  static absl::Status Make(Communicator& communicator, bool leads, std::vector<int> local_ranks,
                           const std::string& address, std::unique_ptr<WatchdogLinks>* links);
  virtual ~WatchdogLinks() = default;

  // Sends the pages of this host and takes those of the others as far as they have come. A host
  // that has hung up before all its ranks have left is cut off: the board gets that verdict.
  virtual void Exchange(ProgressBoard& board) = 0;
  // Tells the others that the ranks of this host have left, once all have (or after two seconds).
  virtual void Leave(ProgressBoard& board) = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_WATCH_LINKS_H_
