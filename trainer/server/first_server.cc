#include "trainer/server/first_server.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "trainer/job/servers.h"
#include "trainer/loop/batch_statistics.h"

namespace millrace::trainer {
namespace {

LedgerOptions LedgerOptionsOf(const ParameterServer& spec, int workers, const wire::Start& start) {
  return {.workers = workers,
          .synchronous = spec.synchronous(),
          .backup_workers = static_cast<int>(spec.backup_workers()),
          .max_staleness = MaxStaleness(spec, workers),
          .total = start.total(),
          .batches = start.batches()};
}

Claim ClaimOf(const wire::Header& header, int worker) {
  const wire::Report& report = header.report();
  return {.worker = worker,
          .life = header.push().life(),
          .number = header.push().number(),
          .version = header.version(),
          .rows = report.rows(),
          .loss_sum = report.loss_sum(),
          .position = {report.position().batches(), report.position().token()},
          .statistics = {report.statistics().begin(), report.statistics().end()}};
}

void AddPush(const Claim& claim, wire::Header& header) {
  wire::PushId& id = *header.add_pushes();
  id.set_worker(static_cast<uint32_t>(claim.worker));
  id.set_life(claim.life);
  id.set_number(claim.number);
}

void SetPosition(const DataPosition& position, wire::Position& wire) {
  wire.set_batches(position.batches);
  wire.set_token(position.token);
}

void SetCounts(const ServerCounts& counts, wire::Counts& wire) {
  wire.mutable_staleness()->Assign(counts.staleness.begin(), counts.staleness.end());
  wire.set_dropped(counts.dropped);
  wire.set_lost(counts.lost);
  wire.set_joined(counts.joined);
}

int64_t RowsOf(const std::vector<Claim>& claims) {
  int64_t rows = 0;
  for (const Claim& claim : claims) rows += claim.rows;
  return rows;
}

}  // namespace

FirstServer::FirstServer(const TrainOptions& options, const JobFile& job, const Model& model,
                         const ServerCluster& cluster, std::vector<size_t> parameters,
                         std::unique_ptr<collectives::MessageServer> server)
    : ServerNode(options, job, model, cluster, std::move(parameters), std::move(server)),
      buffers_(MakeInitialBuffers(model)) {}

absl::Status FirstServer::OnHello(int client, const wire::Hello& hello) {
  const auto index = static_cast<int>(hello.index());
  const int count = hello.is_server() ? cluster_.servers() : cluster_.workers;
  if (index < (hello.is_server() ? 1 : 0) || index >= count) {
    return absl::InvalidArgumentError(absl::StrCat("there is no such process: ", index));
  }
  if (ClientOf(hello.is_server(), index) != 0) {
    return absl::AlreadyExistsError(
        absl::StrCat(hello.is_server() ? "server " : "worker ", index, " is there already"));
  }
  Peer& peer = Admit(client, hello.is_server(), index);
  // Workers wait until the chief has brought the beginning. It comes only once.
  if (hello.is_server() || (peer.is_chief() && !ledger_)) {
    wire::Header header = OfKind(wire::WELCOME);
    header.set_life(kFirstLife);
    Send(client, header);
    return absl::OkStatus();
  }
  return ledger_ ? Welcome(client) : absl::OkStatus();
}

absl::Status FirstServer::Welcome(int client) {
  Peer& peer = peers_[client];
  peer.heard = Clock::now();
  MILLRACE_ASSIGN_OR_RETURN(peer.life, ledger().Join(peer.index));
  wire::Header header = OfKind(wire::WELCOME);
  header.set_life(peer.life);
  header.set_checkpoint(checkpoint_);
  *header.mutable_start() = start_;
  header.mutable_start()->clear_buffers();
  header.mutable_start()->clear_positions();
  SetPosition(ledger().position(peer.index), *header.mutable_start()->add_positions());
  Send(client, header);
  if (has_gone_) Print(absl::StrCat(peer.name(), " joins at update ", version_));
  return absl::OkStatus();
}

absl::Status FirstServer::OnMessage(int client, const wire::Header& header, std::string payload) {
  const Peer& peer = peers_[client];
  if (header.kind() == wire::STOP) {
    OnStop();
    return absl::OkStatus();
  }
  if (!peer.is_server && ledger_) {
    switch (header.kind()) {
      case wire::READY:
        return OnReady(client);
      case wire::CLAIM:
        return OnClaim(client, header, payload);
      case wire::WAIT:
        waits_[peer.index] = header.version();
        AnswerWaits();
        return absl::OkStatus();
      case wire::LEAVE:
        return absl::CancelledError("it was asked to stop");
      default:
        break;
    }
  }
  if (header.kind() == wire::FAILED) return OnFailed(client, header);
  if (peer.is_chief()) return OfChief(client, header, payload);
  return absl::InvalidArgumentError(
      absl::StrCat("a message of kind ", static_cast<int>(header.kind()), " is not for here"));
}

absl::Status FirstServer::OfChief(int client, const wire::Header& header,
                                  const std::string& payload) {
  switch (header.kind()) {
    case wire::INIT:
      return OnInit(client, header, payload);
    case wire::SNAPSHOT:
      return OnSnapshot(client);
    case wire::SAVED:
      return OnSaved(header);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a message of kind ", static_cast<int>(header.kind()), " from the chief"));
  }
}

absl::Status FirstServer::OnInit(int client, const wire::Header& header,
                                 const std::string& payload) {
  MILLRACE_RETURN_IF_ERROR(Begin(client, header.start(), payload));
  MILLRACE_RETURN_IF_ERROR(TakeBuffers(start_.buffers(), buffers_));
  std::vector<DataPosition> positions;
  for (const wire::Position& position : start_.positions()) {
    positions.push_back({position.batches(), position.token()});
  }
  ledger_.emplace(LedgerOptionsOf(job_.job.strategy().parameter_server(), cluster_.workers, start_),
                  version_, std::move(positions));
  checkpoint_ = header.checkpoint();
  std::vector<int> here;
  for (const auto& [number, peer] : peers_) {
    if (!peer.is_server) here.push_back(number);
  }
  for (const int number : here) MILLRACE_RETURN_IF_ERROR(Welcome(number));
  return absl::OkStatus();
}

absl::Status FirstServer::OnReady(int client) {
  const int worker = peers_[client].index;
  ledger().SetReady(worker);
  if (has_gone_) {
    Go(worker);
  } else if (ledger().has_started()) {
    has_gone_ = true;
    for (int i = 0; i < cluster_.workers; ++i) Go(i);
  }
  return absl::OkStatus();
}

absl::Status FirstServer::OnClaim(int client, const wire::Header& header,
                                  const std::string& payload) {
  const int worker = peers_[client].index;
  if (progress_.is_stopping()) {
    wire::Header forget = OfKind(wire::FORGET);
    AddPush(ClaimOf(header, worker), forget);
    TellServers(forget);
    Go(worker);
    return absl::OkStatus();
  }
  if (!std::isfinite(header.report().loss_sum())) {
    const std::string& layer = header.report().bad_layer();
    Fail(absl::OutOfRangeError(absl::StrFormat(
        "update %d: the loss%s is not finite (learning rate %g)%s", version_ + 1,
        layer.empty() ? "" : absl::StrCat(", by the result of layer '", layer, "',"),
        schedule_->RateAt(version_),
        checkpoint_.empty() ? "" : absl::StrCat("; the last good checkpoint is ", checkpoint_))));
    return absl::OkStatus();
  }
  MILLRACE_RETURN_IF_ERROR(CheckStatistics(header.report()));
  MILLRACE_ASSIGN_OR_RETURN(gradients_[worker], shard_.TensorsIn(payload));
  MILLRACE_ASSIGN_OR_RETURN(const Ruling ruling, ledger().Take(ClaimOf(header, worker)));
  Carry(ruling);
  return absl::OkStatus();
}

absl::Status FirstServer::CheckStatistics(const wire::Report& report) const {
  size_t expected = buffers_.empty() ? 0 : 1;
  for (const std::vector<float>& buffer : buffers_) expected += buffer.size();
  if (static_cast<size_t>(report.statistics_size()) == expected) return absl::OkStatus();
  return absl::DataLossError("the statistics of a batch are of another model");
}

void FirstServer::Carry(const Ruling& ruling) {
  if (!ruling.dropped.empty()) {
    wire::Header forget = OfKind(wire::FORGET);
    for (const Claim& claim : ruling.dropped) AddPush(claim, forget);
    TellServers(forget);
  }
  if (!ruling.applied.empty()) Update(ruling.applied);
  for (const Claim& claim : ruling.dropped) Go(claim.worker);
  for (const Claim& claim : ruling.applied) Go(claim.worker);
  AnswerWaits();
}

void FirstServer::Update(const std::vector<Claim>& claims) {
  wire::Header header = OfKind(wire::APPLY);
  header.set_version(version_);
  header.set_rows(RowsOf(claims));
  std::vector<const TensorSet*> gradients;
  for (const Claim& claim : claims) {
    AddPush(claim, header);
    gradients.push_back(&gradients_[claim.worker]);
  }
  TellServers(header);
  Apply(header.rows(), gradients);
  CountLoss(claims);
  FollowStatistics(claims);
}

void FirstServer::CountLoss(const std::vector<Claim>& claims) {
  const int64_t rows = RowsOf(claims);
  double loss = 0;
  for (const Claim& claim : claims) {
    loss += claim.loss_sum / static_cast<double>(std::max<int64_t>(1, rows));
  }
  progress_.set_last_loss(loss);
  progress_.set_loss_sum(progress_.loss_sum() + loss);
  progress_.set_losses(progress_.losses() + 1);
  progress_.set_samples(progress_.samples() + rows);
}

// As the statistics of ranks that go in step: their mean over the rows of all.
void FirstServer::FollowStatistics(const std::vector<Claim>& claims) {
  if (buffers_.empty()) return;
  BatchStatistics statistics;
  for (const Claim& claim : claims) statistics.Merge(claim.statistics);
  statistics.Average();
  statistics.Update(model_, buffers_);
}

void FirstServer::Go(int worker) {
  const int client = ClientOf(/*is_server=*/false, worker);
  if (client == 0) return;
  peers_[client].heard = Clock::now();
  progress_.set_version(version_);
  progress_.set_is_over(ledger().is_over());
  SetCounts(ledger().counts(), *progress_.mutable_counts());
  wire::Header header = OfKind(wire::GO);
  header.set_checkpoint(checkpoint_);
  *header.mutable_progress() = progress_;
  Send(client, header, shard_.WeightsAsBytes());
}

// Workers other than the chief wait for the end of the training.
void FirstServer::AnswerWaits() {
  if (!ledger_) return;
  const bool is_last = ledger().is_over() || progress_.is_stopping();
  const auto chief = waits_.find(0);
  if (chief == waits_.end() || (version_ < chief->second && !is_last)) return;
  waits_.erase(chief);
  Go(0);
}

absl::Status FirstServer::OnSnapshot(int client) {
  TellServers(OfKind(wire::MARK));
  wire::Header header = OfKind(wire::SNAPSHOT);
  progress_.set_version(version_);
  SetCounts(ledger().counts(), *progress_.mutable_counts());
  *header.mutable_progress() = progress_;
  for (int i = 0; i < cluster_.workers; ++i) {
    SetPosition(ledger().position(i), *header.add_positions());
  }
  SetBuffers(buffers_, header.mutable_buffers());
  Send(client, header, shard_.AllAsBytes());
  return absl::OkStatus();
}

absl::Status FirstServer::OnSaved(const wire::Header& header) {
  if (!header.checkpoint().empty()) checkpoint_ = header.checkpoint();
  wire::Header saved = OfKind(header.is_last() ? wire::END : wire::SAVED);
  saved.set_checkpoint(checkpoint_);
  saved.set_is_stopped(progress_.is_stopping());
  TellServers(saved);
  if (!header.is_last()) return absl::OkStatus();
  for (const auto& [client, peer] : peers_) {
    if (!peer.is_server) Send(client, saved);
  }
  End(progress_.is_stopping());
  return absl::OkStatus();
}

absl::Status FirstServer::OnFailed(int client, const wire::Header& header) {
  const Peer& peer = peers_[client];
  const absl::Status why = Annotate(StatusOf(header.error()), peer.name());
  if (has_gone_ && !peer.is_server && !peer.is_chief()) return why;
  Fail(why);
  return absl::OkStatus();
}

void FirstServer::OnGone(const Peer& peer, const absl::Status& why) {
  const std::string text(why.message());
  if (peer.is_server) {
    return Fail(ServerLostError(cluster_, peer.index, text, checkpoint_));
  }
  if (peer.is_chief()) {
    return Fail(LostError(0, absl::StrCat("the chief is lost at update ", version_, ": ", text)));
  }
  if (!ledger_) return;
  waits_.erase(peer.index);
  if (has_gone_ && !ledger().is_over() && !progress_.is_stopping()) {
    Warn(absl::StrCat(peer.name(), " is lost at update ", version_, ": ", text,
                      "; the others go on"));
  }
  wire::Header gone = OfKind(wire::GONE);
  gone.mutable_push()->set_worker(static_cast<uint32_t>(peer.index));
  gone.mutable_push()->set_life(peer.life);
  const Ruling ruling = ledger().Lose(peer.index);
  Carry(ruling);
  TellServers(gone);
}

// True if the peer has something to say; those who wait for this server have not.
bool FirstServer::IsAwaited(const Peer& peer) {
  if (peer.is_server) return true;
  if (peer.is_chief()) return !waits_.contains(0) && !ledger().has_claim(0);
  return ledger().is_awaited(peer.index) && !ledger().is_over() && !progress_.is_stopping();
}

void FirstServer::OnTick() {
  std::vector<int> silent;
  for (const auto& [client, peer] : peers_) {
    if (has_gone_ && IsSilent(peer) && IsAwaited(peer)) silent.push_back(client);
  }
  for (const int client : silent) {
    const Peer& peer = peers_[client];
    SendAway(client, LostError(peer.is_server ? cluster_.workers + peer.index : peer.index,
                               "it has been silent for too long, and is given up"));
  }
  if (!has_gone_) CheckStart();
}

void FirstServer::CheckStart() {
  const std::chrono::nanoseconds limit = options_.start_timeout;
  if (limit.count() == 0 || age() < limit) return;
  std::vector<std::string> missing;
  const auto look = [&](bool is_server, int index) {
    const int client = ClientOf(is_server, index);
    // Those who wait for the chief have nothing to say.
    const bool is_awaited = ledger_ ? !is_server : index == 0;
    const bool is_late = client == 0 || (is_awaited && Clock::now() - peers_[client].heard > limit);
    if (is_late) missing.push_back(absl::StrCat(is_server ? "server " : "worker ", index));
  };
  for (int i = 0; i < cluster_.workers; ++i) look(/*is_server=*/false, i);
  for (int i = 1; i < cluster_.servers(); ++i) look(/*is_server=*/true, i);
  if (missing.empty()) return;
  Fail(absl::DeadlineExceededError(absl::StrCat("the training has not begun within ",
                                                options_.start_timeout.count(),
                                                " ms; missing: ", absl::StrJoin(missing, ", "))));
}

void FirstServer::OnStop() {
  if (progress_.is_stopping()) return;
  progress_.set_is_stopping(true);
  if (!has_gone_) return Fail(absl::CancelledError("stopped by a signal before the first update"));
  for (const int worker : ledger().Stop()) Go(worker);
  AnswerWaits();
}

void FirstServer::TellServers(const wire::Header& header) {
  for (const auto& [client, peer] : peers_) {
    if (peer.is_server) Send(client, header);
  }
}

}  // namespace millrace::trainer
