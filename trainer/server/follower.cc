#include "trainer/server/follower.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/server/greeting.h"

namespace millrace::trainer {
namespace {

// Gradients of one worker that wait for the first server's decision. One is usual, and some of its
// lives before may be left.
constexpr int64_t kMaxStaged = 8;

}  // namespace

absl::Status Follower::Follow() {
  wire::Hello hello;
  hello.set_is_server(true);
  hello.set_index(static_cast<uint32_t>(cluster_.index));
  hello.set_job(job_number_);
  Greeting greeting = {
      .options = options_, .cluster = cluster_, .server = 0, .hello = hello, .payload_bytes = 0};
  MILLRACE_ASSIGN_OR_RETURN(Greeted greeted, Greet(greeting));
  link_ = server_->Adopt(std::move(greeted.connection));
  peers_[link_] = {.is_server = true, .index = 0, .life = 0, .heard = Clock::now()};
  return absl::OkStatus();
}

absl::Status Follower::OnHello(int client, const wire::Hello& hello) {
  const auto worker = static_cast<int>(hello.index());
  if (hello.is_server() || worker < 0 || worker >= cluster_.workers) {
    return absl::InvalidArgumentError("only workers come here");
  }
  // The first server has let only one process in as this worker: another one here is its last life.
  if (const int old = ClientOf(/*is_server=*/false, worker); old != 0) {
    if (peers_[old].life >= hello.life()) {
      return absl::AlreadyExistsError(absl::StrCat("worker ", worker, " is there already"));
    }
    SendAway(old, absl::UnavailableError("another process has come in its place"));
  }
  Admit(client, /*is_server=*/false, worker).life = hello.life();
  Send(client, OfKind(wire::WELCOME));
  return absl::OkStatus();
}

absl::Status Follower::OnMessage(int client, const wire::Header& header, std::string payload) {
  if (client == link_) {
    OnDecision(header);
    return absl::OkStatus();
  }
  const Peer& peer = peers_[client];
  switch (header.kind()) {
    case wire::INIT:
      if (!peer.is_chief()) break;
      return Begin(client, header.start(), payload);
    case wire::STAGE:
      return Stage(client, header, payload);
    case wire::PULL:
      pulls_[client] = header.version();
      Answer();
      return absl::OkStatus();
    case wire::SNAPSHOT:
      if (!peer.is_chief()) break;
      wanted_ = header.version();
      Answer();
      return absl::OkStatus();
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a message of kind ", static_cast<int>(header.kind()), " is not for here"));
}

absl::Status Follower::Stage(int client, const wire::Header& header, const std::string& payload) {
  const Peer& peer = peers_[client];
  const auto worker = static_cast<uint32_t>(peer.index);
  const auto of_worker = [worker](const auto& one) { return std::get<0>(one.first) == worker; };
  if (!has_begun()) return absl::InvalidArgumentError("the training has not begun");
  if (std::ranges::count_if(staged_, of_worker) >= kMaxStaged) {
    return absl::ResourceExhaustedError("it has too many gradients that wait");
  }
  MILLRACE_ASSIGN_OR_RETURN(TensorSet gradient, shard_.TensorsIn(payload));
  staged_[{worker, peer.life, header.push().number()}] = std::move(gradient);
  Send(client, OfKind(wire::STAGED));
  return absl::OkStatus();
}

void Follower::OnDecision(const wire::Header& header) {
  switch (header.kind()) {
    case wire::APPLY:
      return OnApply(header);
    case wire::FORGET:
      for (const wire::PushId& id : header.pushes()) {
        staged_.erase({id.worker(), id.life(), id.number()});
      }
      return;
    case wire::GONE:
      return OnGoneWorker(header.push());
    case wire::MARK:
      snapshot_ = version_;
      tensors_ = shard_.AllAsBytes();
      return Answer();
    case wire::SAVED:
      checkpoint_ = header.checkpoint();
      return;
    case wire::FAILED:
      return Fail(StatusOf(header.error()));
    case wire::END:
      checkpoint_ = header.checkpoint();
      for (const auto& [client, peer] : peers_) {
        if (!peer.is_server) Send(client, header);
      }
      return End(header.is_stopped());
    default:
      return;
  }
}

void Follower::OnApply(const wire::Header& header) {
  std::vector<const TensorSet*> gradients;
  for (const wire::PushId& id : header.pushes()) {
    const auto found = staged_.find({id.worker(), id.life(), id.number()});
    if (found == staged_.end()) break;
    gradients.push_back(&found->second);
  }
  const bool is_whole = std::ssize(gradients) == header.pushes_size() && !gradients.empty();
  if (!is_whole || header.version() != version_ || !has_begun()) {
    return Fail(absl::InternalError(
        absl::StrCat("update ", header.version(), " does not follow update ", version_)));
  }
  Apply(header.rows(), gradients);
  for (const wire::PushId& id : header.pushes()) {
    staged_.erase({id.worker(), id.life(), id.number()});
  }
  Answer();
}

void Follower::OnGoneWorker(const wire::PushId& worker) {
  std::erase_if(staged_, [&worker](const auto& one) {
    return std::get<0>(one.first) == worker.worker() && std::get<1>(one.first) == worker.life();
  });
  const int client = ClientOf(/*is_server=*/false, static_cast<int>(worker.worker()));
  if (client != 0 && peers_[client].life == worker.life()) {
    SendAway(client, LostError(static_cast<int>(worker.worker()),
                               "the first server has given this worker up"));
  }
}

void Follower::Answer() {
  for (auto pull = pulls_.begin(); pull != pulls_.end();) {
    if (pull->second > version_) {
      ++pull;
      continue;
    }
    wire::Header header = OfKind(wire::WEIGHTS);
    header.set_version(version_);
    Send(pull->first, header, shard_.WeightsAsBytes());
    pull = pulls_.erase(pull);
  }
  if (!wanted_ || !snapshot_ || *wanted_ != *snapshot_) return;
  if (const int chief = ClientOf(/*is_server=*/false, 0); chief != 0) {
    Send(chief, OfKind(wire::SNAPSHOT), std::move(tensors_));
  }
  wanted_.reset();
  snapshot_.reset();
  tensors_.clear();
}

void Follower::OnGone(const Peer& peer, const absl::Status& why) {
  if (peer.is_server) {
    Fail(ServerLostError(cluster_, 0, std::string(why.message()), checkpoint_));
  }
  // The first server hears of a worker's end by itself.
  std::erase_if(pulls_, [this](const auto& pull) { return !peers_.contains(pull.first); });
}

void Follower::OnTick() {
  if (IsSilent(peers_[link_])) {
    Fail(ServerLostError(cluster_, 0, "it has been silent for too long", checkpoint_));
  }
}

void Follower::OnStop() { Send(link_, OfKind(wire::STOP)); }

}  // namespace millrace::trainer
