#ifndef MILLRACE_COLLECTIVES_NET_RENDEZVOUS_H_
#define MILLRACE_COLLECTIVES_NET_RENDEZVOUS_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous.h"

namespace millrace::collectives {

inline constexpr size_t kMaxRendezvousBytes = 60000;
inline constexpr size_t kMaxJobIdBytes = 1024;
inline constexpr int kMaxRendezvousRanks = 1024;

// The waits of a rendezvous beside its timeout; all but the last at a server only.
struct RendezvousWaits {
  // A connection that does not say within this time who it is, is closed.
  std::chrono::milliseconds introduction{2000};
  // Rank 0 answers a connection within this time, or the program that listens there is no rank 0.
  std::chrono::milliseconds welcome{5000};
  // The time of one attempt to connect.
  std::chrono::milliseconds connect{2000};
  // The time for the word of rank 0 to come after the deadline that it shares.
  std::chrono::milliseconds grace{2000};
  // Rank 0 refuses ranks that come for so long after a failure: launchers start them within
  // seconds.
  std::chrono::milliseconds refusal{10'000};
  // If set, the timeout is over, too, as soon as this is true for the number of ranks that are
  // here. At a server rank 0 calls it, after each change; in a folder every rank does, again and
  // again.
  std::function<bool(int num_here)> is_over = nullptr;
};

// The outcome of the options' watch, where there is one.
absl::Status AskWatch(const RendezvousOptions& options);
// The end of a wait after which the watch is to be asked: `deadline`, or sooner.
Deadline NextLook(const RendezvousOptions& options, Deadline deadline);
// Sleeps, and asks the watch meanwhile.
absl::Status SleepWatched(const RendezvousOptions& options, std::chrono::milliseconds time);

// RunRendezvous with other waits than the product's.
absl::StatusOr<std::vector<std::string>> RunRendezvousWith(const RendezvousOptions& options,
                                                           std::string_view own,
                                                           const RendezvousWaits& waits);

// The two ways; `options` have been checked.
absl::StatusOr<std::vector<std::string>> RendezvousAtServer(const RendezvousOptions& options,
                                                            const HostPort& place,
                                                            std::string_view own,
                                                            const RendezvousWaits& waits);
absl::StatusOr<std::vector<std::string>> RendezvousInFolder(const RendezvousOptions& options,
                                                            const std::string& folder,
                                                            std::string_view own,
                                                            const RendezvousWaits& waits);

// "2 of 4 ranks never came within 500 ms: rank 1 (reason), rank 3": those of `missing` with their
// reasons, cut short. `waited`: the timeout of the least patient rank.
struct MissingRank {
  int rank = 0;
  std::string reason;  // may be empty
};
absl::Status NeverCame(const RendezvousOptions& options, std::chrono::nanoseconds waited,
                       const std::vector<MissingRank>& missing);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NET_RENDEZVOUS_H_
