// Finds which ranks share memory. Every step that can fail on one rank alone ends with an exchange,
// so that all ranks take the same way; the ranks of a job have one layout, even where only one of
// many hosts has a /dev/shm that is too small: the bits of sums depend on it.

#include "collectives/reducer/host_links.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"

namespace millrace::collectives {
namespace {

absl::StatusOr<std::vector<uint64_t>> GatherNumbers(Communicator& all, uint64_t own) {
  std::vector<uint64_t> numbers(static_cast<size_t>(all.size()));
  MILLRACE_RETURN_IF_ERROR(all.AllGather({&own, DType::kI64, Shape{1}},
                                         {numbers.data(), DType::kI64, Shape{all.size()}}));
  return numbers;
}

uint64_t IdentityOf(const PrivateReducerOptions& options) {
  if (!options.shared_memory) return 0;
  const int host = options.host;
  return host >= 0 ? static_cast<uint64_t>(host) + 1 : HostIdentity();
}

// The lowest rank's `text` that is not empty, or none.
absl::StatusOr<std::string> FirstText(Communicator& all, const std::string& text) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes, GatherNumbers(all, text.size()));
  const auto first = std::find_if(sizes.begin(), sizes.end(), [](uint64_t s) { return s > 0; });
  if (first == sizes.end()) return std::string();
  const int root = static_cast<int>(first - sizes.begin());
  std::string found = all.rank() == root ? text : std::string(*first, '\0');
  MILLRACE_RETURN_IF_ERROR(
      all.Broadcast({found.data(), DType::kU8, Shape{static_cast<int64_t>(found.size())}}, root));
  return absl::StrCat("rank ", root, ": ", found);
}

class Connector {
 public:
  Connector(Communicator& all, const BytesOf& bytes, const PrivateReducerOptions& options)
      : all_(all), bytes_(bytes), options_(options) {}

  absl::StatusOr<HostLinks> Connect() {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> identities,
                              GatherNumbers(all_, IdentityOf(options_)));
    links_.groups = GroupByIdentity(identities);
    if (links_.groups.largest() > 1) MILLRACE_RETURN_IF_ERROR(Share());
    MILLRACE_RETURN_IF_ERROR(TakePrivateMemory());
    links_.ranks = links_.groups.RanksOf(host());
    MILLRACE_RETURN_IF_ERROR(ConnectStripes());
    return std::move(links_);
  }

 private:
  int host() const { return links_.groups.host_of[all_.rank()]; }

  absl::Status Share() {
    MILLRACE_ASSIGN_OR_RETURN(const auto local, all_.Split(host(), all_.rank()));
    SharedHostResult shared;
    if (local->size() > 1) {
      MILLRACE_ASSIGN_OR_RETURN(shared, SharedHost::Make(*local, bytes_(links_.groups)));
    }
    MILLRACE_ASSIGN_OR_RETURN(links_.note, FirstText(all_, shared.refused));
    if (links_.note.empty()) {
      links_.host = std::move(shared.host);
    } else {
      links_.groups = GroupByIdentity(std::vector<uint64_t>(all_.size(), 0));
    }
    return absl::OkStatus();
  }

  absl::Status TakePrivateMemory() {
    const bool alone = std::ranges::count(links_.groups.sizes, 1) > 0;
    if (!alone) return absl::OkStatus();
    if (links_.host == nullptr) links_.host = SharedHost::MakePrivate(bytes_(links_.groups));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> have,
                              GatherNumbers(all_, links_.host != nullptr ? 1 : 0));
    const auto lacks = std::find(have.begin(), have.end(), 0);
    if (lacks == have.end()) return absl::OkStatus();
    if (links_.host == nullptr) {
      return MarkAgreed(absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", bytes_(links_.groups), " bytes of gradients")));
    }
    return MarkAgreed(absl::InvalidArgumentError(
        absl::StrCat("rank ", lacks - have.begin(), " has no memory for its gradients")));
  }

  absl::Status ConnectStripes() {
    const HostGroups& groups = links_.groups;
    const int stripes = groups.num_stripes();
    const int local = groups.local_of[all_.rank()];
    links_.stripe = local < stripes ? local : -1;
    if (groups.num_hosts() == 1) return absl::OkStatus();
    // A group of its own, so that reducers do not wait for each other's exchanges.
    MILLRACE_ASSIGN_OR_RETURN(auto cross, all_.Split(std::min(local, stripes), host()));
    if (links_.stripe >= 0) links_.cross = std::move(cross);
    return absl::OkStatus();
  }

  Communicator& all_;
  const BytesOf& bytes_;
  const PrivateReducerOptions& options_;
  HostLinks links_;
};

}  // namespace

int HostGroups::largest() const { return *std::max_element(sizes.begin(), sizes.end()); }

std::vector<int> HostGroups::RanksOf(int host) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank) {
    if (host_of[rank] == host) ranks.push_back(rank);
  }
  return ranks;
}

int HostGroups::num_stripes() const { return *std::min_element(sizes.begin(), sizes.end()); }

HostGroups GroupByIdentity(const std::vector<uint64_t>& identities) {
  HostGroups groups;
  std::map<uint64_t, int> known;
  for (const uint64_t identity : identities) {
    int host = groups.num_hosts();
    if (identity != 0) host = known.emplace(identity, host).first->second;
    if (host == groups.num_hosts()) groups.sizes.push_back(0);
    groups.host_of.push_back(host);
    groups.local_of.push_back(groups.sizes[host]++);
  }
  return groups;
}

absl::StatusOr<HostLinks> ConnectHosts(Communicator& all, const BytesOf& bytes,
                                       const PrivateReducerOptions& options) {
  return Connector(all, bytes, options).Connect();
}

}  // namespace millrace::collectives
