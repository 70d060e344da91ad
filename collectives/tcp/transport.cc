#include <algorithm>
#include <list>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/tcp/connect_tcp.h"
#include "collectives/tcp/mesh.h"

namespace millrace::collectives {
namespace {

// A mesh and what it still sends for groups that may be gone.
struct Net {
  std::list<std::pair<Transport::Id, std::vector<std::byte>>> posted;
  std::shared_ptr<TcpMesh> mesh;  // goes before the memory above
};

// Some ranks of a mesh as a group.
class TcpTransport final : public Transport {
 public:
  // `members`: ranks of the mesh by rank of the group.
  TcpTransport(std::shared_ptr<Net> net, uint32_t group, std::vector<int> members)
      : net_(std::move(net)), mesh_(*net_->mesh), group_(group), members_(std::move(members)) {
    for (int i = 0; i < size(); ++i) {
      if (members_[i] == mesh_.rank()) rank_ = i;
    }
    for (int i = 0; i < size(); ++i) {
      if (!mesh_.OnOneHost(members_[i], mesh_.rank())) continue;
      if (i < rank_) ++local_rank_;
      ++local_size_;
    }
  }

  ~TcpTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  int RankInJob(int rank) const override { return members_[rank]; }
  std::string_view name() const override { return "tcp"; }

  absl::StatusOr<Id> Send(std::span<const std::byte> data, int peer, uint32_t tag) override {
    return Remember(mesh_.Send(data, members_[peer], group_, tag));
  }
  absl::StatusOr<Id> Receive(std::span<std::byte> data, int peer, uint32_t tag) override {
    return Remember(mesh_.Receive(data, members_[peer], group_, tag));
  }
  absl::Status Post(std::span<const std::byte> data, int peer, uint32_t tag) override;
  absl::StatusOr<bool> Test(Id id) override {
    const absl::StatusOr<bool> ended = mesh_.Test(id);
    if (!ended.ok() || *ended) on_their_way_.erase(id);
    return ended;
  }
  void Cancel(Id id) override {
    mesh_.Cancel(id);
    on_their_way_.erase(id);
  }
  void Idle(std::chrono::nanoseconds limit) override { mesh_.Idle(limit); }
  void Abort(const absl::Status& reason) override { mesh_.Abort(reason); }

  uint32_t next_group() const override { return mesh_.next_group(); }
  absl::StatusOr<std::unique_ptr<Transport>> Split(std::span<const Choice> choices) override;

 private:
  absl::StatusOr<Id> Remember(absl::StatusOr<Id> id) {
    if (id.ok()) on_their_way_.insert(*id);
    return id;
  }

  const std::shared_ptr<Net> net_;
  TcpMesh& mesh_;
  const uint32_t group_;
  const std::vector<int> members_;
  int rank_ = 0;
  int local_rank_ = 0;
  int local_size_ = 0;
  std::unordered_set<Id> on_their_way_;  // the mesh outlives this object and their memory
};

TcpTransport::~TcpTransport() {
  for (const Id id : on_their_way_) mesh_.Cancel(id);
  mesh_.EndGroup(group_);
}

absl::Status TcpTransport::Post(std::span<const std::byte> data, int peer, uint32_t tag) {
  std::erase_if(net_->posted, [this](const auto& message) {
    const absl::StatusOr<bool> ended = mesh_.Test(message.first);
    return !ended.ok() || *ended;
  });
  auto& [id, memory] = net_->posted.emplace_back(0, std::vector(data.begin(), data.end()));
  const absl::StatusOr<Id> sent = mesh_.Send(memory, members_[peer], group_, tag);
  if (sent.ok()) id = *sent;
  if (!sent.ok()) net_->posted.pop_back();
  return sent.status();
}

absl::StatusOr<std::unique_ptr<Transport>> TcpTransport::Split(std::span<const Choice> choices) {
  // A number that no member has seen: two groups with two ranks in common never have the same one.
  uint32_t group = 0;
  std::vector<std::pair<int32_t, int>> chosen;  // key, rank
  for (int i = 0; i < size(); ++i) {
    group = std::max(group, choices[i].next_group);
    if (choices[i].color == choices[rank_].color) chosen.emplace_back(choices[i].key, i);
  }
  mesh_.set_next_group(group + 1);
  std::sort(chosen.begin(), chosen.end());
  std::vector<int> members;
  for (const auto& [order, rank] : chosen) members.push_back(members_[rank]);
  return std::make_unique<TcpTransport>(net_, group, std::move(members));
}

std::unique_ptr<Transport> TransportOf(std::shared_ptr<TcpMesh> mesh) {
  auto net = std::make_shared<Net>();
  net->mesh = std::move(mesh);
  std::vector<int> members(net->mesh->size());
  for (int i = 0; i < net->mesh->size(); ++i) members[i] = i;
  return std::make_unique<TcpTransport>(std::move(net), 0, std::move(members));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> ConnectTcp(const RendezvousOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<TcpMesh> mesh, ConnectMesh(options));
  return TransportOf(std::move(mesh));
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectSeated(const TcpSeat& seat,
                                                         const std::vector<std::string>& told,
                                                         const RendezvousOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<TcpMesh> mesh, ConnectMesh(seat, told, options));
  return TransportOf(std::move(mesh));
}

}  // namespace millrace::collectives
