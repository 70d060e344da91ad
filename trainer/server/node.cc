#include "trainer/server/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/peer_lost.h"

namespace millrace::trainer {
namespace {

constexpr std::chrono::milliseconds kTick{200};
// The time for workers to hear of the end, and to close their connections.
constexpr std::chrono::seconds kFarewell{2};
// A longer time between two ticks is one in which this process did not run.
constexpr std::chrono::seconds kSuspension{2};

}  // namespace

std::string ServerNode::Peer::name() const {
  return absl::StrCat(is_server ? "server " : "worker ", index);
}

ServerNode::ServerNode(const TrainOptions& options, const JobFile& job, const Model& model,
                       const ServerCluster& cluster, std::vector<size_t> parameters,
                       std::unique_ptr<collectives::MessageServer> server)
    : options_(options),
      job_(job),
      model_(model),
      cluster_(cluster),
      job_number_(JobNumber(job, model, cluster.workers, cluster.servers())),
      shard_(job.job.optimizer(), model, std::move(parameters)),
      server_(std::move(server)) {}

absl::StatusOr<ServerEnd> ServerNode::Run() {
  while (!is_over_) {
    auto events = server_->Wait(Clock::now() + kTick);
    if (!events.ok()) {
      Fail(events.status());
      break;
    }
    for (collectives::MessageServer::Event& event : *events) {
      if (!is_over_) {
        Handle(event);
      } else if (!event.message) {
        peers_.erase(event.client);
      }
    }
    if (!is_over_) Tick();
  }
  AwaitWorkers();
  if (!failure_.ok()) return failure_;
  return end_;
}

// A connection that is closed with messages left in it takes with it what was sent last.
void ServerNode::AwaitWorkers() {
  const Clock::time_point limit = Clock::now() + kFarewell;
  const auto is_worker = [](const auto& one) { return !one.second.is_server; };
  while (std::ranges::any_of(peers_, is_worker) && Clock::now() < limit) {
    const auto events = server_->Wait(limit);
    if (!events.ok()) return;
    for (const collectives::MessageServer::Event& event : *events) {
      if (!event.message) peers_.erase(event.client);
    }
  }
  server_->Flush();
}

void ServerNode::Handle(collectives::MessageServer::Event& event) {
  const auto found = peers_.find(event.client);
  if (!event.message) {
    if (found == peers_.end()) return;
    const Peer peer = found->second;
    peers_.erase(found);
    OnGone(peer, event.why);
    return;
  }
  const auto header = Unpack(*event.message);
  absl::Status status = header.status();
  if (status.ok() && found == peers_.end()) {
    status = HandleHello(event.client, *header);
  } else if (status.ok()) {
    found->second.heard = Clock::now();
    if (header->kind() == wire::ALIVE) return;
    status = OnMessage(event.client, *header, std::move(event.message->payload));
  }
  if (!status.ok()) SendAway(event.client, status);
}

absl::Status ServerNode::HandleHello(int client, const wire::Header& header) {
  const wire::Hello& hello = header.hello();
  if (header.kind() != wire::HELLO || hello.protocol() != kServerProtocol) {
    return absl::FailedPreconditionError("it speaks another version of the protocol");
  }
  if (hello.job() != job_number_) {
    return absl::FailedPreconditionError(
        "its job, model or number of workers or servers is another one");
  }
  return OnHello(client, hello);
}

ServerNode::Peer& ServerNode::Admit(int client, bool is_server, int index) {
  // The chief brings all tensors, the others weights at most.
  const bool brings_all = !is_server && index == 0;
  const uint64_t payload = brings_all ? shard_.all_bytes() : shard_.weight_bytes();
  server_->Admit(client, {HeaderLimit(brings_all, cluster_.workers), is_server ? 0 : payload});
  Peer& peer = peers_[client];
  peer = {is_server, index, 0, Clock::now()};
  return peer;
}

int ServerNode::ClientOf(bool is_server, int index) const {
  for (const auto& [client, peer] : peers_) {
    if (peer.is_server == is_server && peer.index == index) return client;
  }
  return 0;
}

void ServerNode::Send(int client, const wire::Header& header, std::string payload) {
  server_->Send(client, Pack(header, std::move(payload)));
}

void ServerNode::SendAway(int client, const absl::Status& why) {
  const auto found = peers_.find(client);
  wire::Header header = OfKind(found == peers_.end() ? wire::REFUSED : wire::FAILED);
  *header.mutable_error() = ErrorOf(why);
  Send(client, header);
  server_->Close(client);
  if (found == peers_.end()) return;
  const Peer peer = found->second;
  peers_.erase(found);
  OnGone(peer, why);
}

void ServerNode::Fail(const absl::Status& why) {
  if (is_over_) return;
  is_over_ = true;
  failure_ = why;
  wire::Header header = OfKind(wire::FAILED);
  *header.mutable_error() = ErrorOf(why);
  for (const auto& [client, peer] : peers_) Send(client, header);
}

void ServerNode::End(bool is_stopped) {
  is_over_ = true;
  end_ = {is_stopped, checkpoint_};
}

bool ServerNode::IsSilent(const Peer& peer) const {
  const std::chrono::nanoseconds limit = SilenceLimit(options_.stall_abort);
  return limit.count() > 0 && Clock::now() - peer.heard > limit;
}

void ServerNode::Tick() {
  const Clock::time_point now = Clock::now();
  if (now - ticked_ > kSuspension) {
    for (auto& [client, peer] : peers_) peer.heard += now - ticked_;
  }
  ticked_ = now;
  if (now - said_alive_ >= kAliveEvery) SayAlive();
  if (!has_stopped_ && IsStopWanted()) {
    has_stopped_ = true;
    OnStop();
  }
  OnTick();
}

void ServerNode::SayAlive() {
  said_alive_ = Clock::now();
  for (const auto& [client, peer] : peers_) {
    if (!server_->IsSending(client)) Send(client, OfKind(wire::ALIVE));
  }
}

bool ServerNode::IsStopWanted() const {
  return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
}

absl::Status ServerNode::Begin(int client, const wire::Start& start, std::string_view payload) {
  if (has_begun()) return absl::InvalidArgumentError("the training has begun already");
  if (start.positions_size() != cluster_.workers) {
    return absl::InvalidArgumentError("the positions are of another number of workers");
  }
  MILLRACE_RETURN_IF_ERROR(shard_.Load(payload));
  start_ = start;
  version_ = start.version();
  schedule_ =
      Schedule::Make(job_.job.optimizer(), start.batch(), start.steps_per_epoch(), start.total());
  Send(client, OfKind(wire::READY));
  return absl::OkStatus();
}

void ServerNode::Apply(int64_t rows, const std::vector<const TensorSet*>& gradients) {
  const UpdateStep update = {static_cast<int64_t>(version_), version_ + 1,
                             schedule_->RateAt(version_)};
  shard_.Apply(update, rows, gradients);
  ++version_;
}

void ServerNode::Print(const std::string& line) const {
  if (options_.print) options_.print(line);
}

void ServerNode::Warn(const std::string& line) const {
  if (options_.warn) options_.warn(line);
}

}  // namespace millrace::trainer
