#ifndef MILLRACE_COLLECTIVES_NET_RENDEZVOUS_H_
#define MILLRACE_COLLECTIVES_NET_RENDEZVOUS_H_

#include <chrono>
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

// The two ways; `options` have been checked.
absl::StatusOr<std::vector<std::string>> RendezvousAtServer(const RendezvousOptions& options,
                                                            const HostPort& place,
                                                            std::string_view own);
absl::StatusOr<std::vector<std::string>> RendezvousInFolder(const RendezvousOptions& options,
                                                            const std::string& folder,
                                                            std::string_view own);

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
