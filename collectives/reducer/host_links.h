#ifndef MILLRACE_COLLECTIVES_REDUCER_HOST_LINKS_H_
#define MILLRACE_COLLECTIVES_REDUCER_HOST_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/host/host.h"
#include "collectives/reducer/private_options.h"

namespace millrace::collectives {

// Which ranks share a host. Hosts are numbered by their lowest rank.
struct HostGroups {
  std::vector<int> host_of;   // the host of each rank
  std::vector<int> local_of;  // by rank: its place among the ranks of its host, in ascending order
  std::vector<int> sizes;     // the number of ranks of each host

  int num_hosts() const { return static_cast<int>(sizes.size()); }
  int largest() const;
  // The number of shares that each host cuts its buckets into, one for each rank that sums: as many
  // as the smallest host has ranks.
  int num_stripes() const;
  std::vector<int> RanksOf(int host) const;  // ascending
};

// Groups the ranks by equal identities; a rank of identity 0 is a host of its own.
HostGroups GroupByIdentity(const std::vector<uint64_t>& identities);

// The connections of a rank of the reducer.
struct HostLinks {
  HostGroups groups;
  std::unique_ptr<SharedHost> host;
  std::vector<int> ranks;  // the ranks of this host, by their place
  int stripe = 0;          // the share that this rank sums; -1: none
  // The ranks of this stripe, one for each host; null: one host, or no stripe.
  std::unique_ptr<Communicator> cross;
  std::string note;  // why ranks of one host do not share memory; empty: they do
};

// Returns how many bytes a rank needs in the memory of its host, by the groups that share memory.
using BytesOf = std::function<size_t(const HostGroups& groups)>;

// Finds the hosts and maps `bytes` for this rank and its neighbours; where some host's memory
// cannot be shared, no host's is. Collective.
//   RESOURCE_EXHAUSTED, INVALID_ARGUMENT  no memory on some rank, marked as agreed
//   other                                 a collective call failed
absl::StatusOr<HostLinks> ConnectHosts(Communicator& all, const BytesOf& bytes,
                                       const PrivateReducerOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_HOST_LINKS_H_
