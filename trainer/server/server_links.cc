#include "trainer/server/server_links.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/peer_lost.h"
#include "trainer/server/greeting.h"

namespace millrace::trainer {
namespace {

// The time in which the servers tell of an error, after a connection broke.
constexpr std::chrono::seconds kReason{2};

uint64_t BytesOf(const Model& model, const std::vector<size_t>& parameters) {
  uint64_t elements = 0;
  for (const size_t i : parameters) {
    elements += static_cast<uint64_t>(model.parameters[i].shape.num_elements());
  }
  return elements * sizeof(float);
}

}  // namespace

ServerLinks::ServerLinks(const TrainOptions& options, const ServerCluster& cluster,
                         const Model& model, const std::vector<std::vector<size_t>>& placed,
                         uint64_t job_number, uint64_t all_bytes_per_weight_byte)
    : options_(options),
      cluster_(cluster),
      placed_(placed),
      job_number_(job_number),
      limit_(SilenceLimit(options.stall_abort)) {
  for (const std::vector<size_t>& own : placed) {
    payload_bytes_.push_back(BytesOf(model, own) * all_bytes_per_weight_byte);
  }
}
ServerLinks::~ServerLinks() = default;

absl::Status ServerLinks::Connect() {
  wire::Hello hello;
  hello.set_index(static_cast<uint32_t>(cluster_.index));
  hello.set_job(job_number_);
  for (int server = 0; server < cluster_.servers(); ++server) {
    hello.set_life(life_);
    MILLRACE_ASSIGN_OR_RETURN(Greeted greeted, Greet({.options = options_,
                                                      .cluster = cluster_,
                                                      .server = server,
                                                      .hello = hello,
                                                      .payload_bytes = payload_bytes_[server]}));
    links_.push_back(std::move(greeted.connection));
    if (server > 0) continue;
    life_ = greeted.welcome.life();
    checkpoint_ = greeted.welcome.checkpoint();
    start_ = greeted.welcome.start();
  }
  return absl::OkStatus();
}

absl::Status ServerLinks::Send(int server, const wire::Header& header, std::string_view payload) {
  const absl::Status sent = links_[server]->Send(header.SerializeAsString(), payload, limit_);
  return sent.ok() ? sent : Explain(server, sent);
}

absl::Status ServerLinks::Say(wire::Kind kind) { return Send(0, OfKind(kind)); }

absl::StatusOr<collectives::Message> ServerLinks::Await(int server, wire::Kind kind,
                                                        wire::Header& header) {
  while (true) {
    auto message = links_[server]->Receive(limit_);
    if (!message.ok()) return Explain(server, message.status());
    const auto unpacked = Unpack(*message);
    if (!unpacked.ok()) return Annotate(unpacked.status(), NameOfServer(cluster_, server));
    header = *unpacked;
    if (header.kind() == wire::ALIVE) continue;
    if (header.kind() == wire::FAILED) return StatusOf(header.error());
    if (!header.checkpoint().empty()) checkpoint_ = header.checkpoint();
    if (header.kind() == kind) return message;
    if (header.kind() == wire::END) return NoteEnd(header);
    return absl::InternalError(absl::StrCat(NameOfServer(cluster_, server), " sends a message of ",
                                            "kind ", static_cast<int>(header.kind())));
  }
}

// Servers that end tell the reason first, but to send something to them fails before it is read;
// and one that is lost is known to the first server.
absl::Status ServerLinks::Explain(int server, const absl::Status& broken) {
  for (const int told_by : {server, 0}) {
    const auto limit = std::chrono::steady_clock::now() + kReason;
    while (std::chrono::steady_clock::now() < limit) {
      const auto message = links_[told_by]->Receive(kReason);
      if (!message.ok()) break;
      const auto header = Unpack(*message);
      if (!header.ok()) break;
      if (header->kind() == wire::FAILED) return StatusOf(header->error());
      if (header->kind() == wire::END) return NoteEnd(*header);
    }
  }
  return ServerLostError(cluster_, server, std::string(broken.message()), checkpoint_);
}

absl::Status ServerLinks::NoteEnd(const wire::Header& header) {
  has_ended_ = true;
  is_stopped_ = header.is_stopped();
  if (!header.checkpoint().empty()) checkpoint_ = header.checkpoint();
  return absl::CancelledError("the training is over");
}

absl::Status ServerLinks::Begin(wire::Start start, const AllTensors& tensors,
                                const std::string& checkpoint) {
  checkpoint_ = checkpoint;
  wire::Header header = OfKind(wire::INIT);
  *header.mutable_start() = std::move(start);
  header.set_checkpoint(checkpoint);
  // The first one last: it then welcomes the others.
  for (int server = cluster_.servers(); server-- > 0;) {
    MILLRACE_RETURN_IF_ERROR(Send(server, header, trainer::BytesOf(tensors, placed_[server])));
    wire::Header answer;
    MILLRACE_RETURN_IF_ERROR(Await(server, wire::READY, answer).status());
  }
  wire::Header welcome;
  MILLRACE_RETURN_IF_ERROR(Await(0, wire::WELCOME, welcome).status());
  life_ = welcome.life();
  start_ = welcome.start();
  return absl::OkStatus();
}

absl::StatusOr<wire::Progress> ServerLinks::AwaitGo(TensorSet& weights) {
  wire::Header go;
  MILLRACE_ASSIGN_OR_RETURN(const collectives::Message message, Await(0, wire::GO, go));
  MILLRACE_RETURN_IF_ERROR(TakeWeightsOf(message.payload, placed_[0], weights));
  version_ = go.progress().version();
  wire::Header pull = OfKind(wire::PULL);
  pull.set_version(version_);
  for (int server = 1; server < cluster_.servers(); ++server) {
    MILLRACE_RETURN_IF_ERROR(Send(server, pull));
  }
  for (int server = 1; server < cluster_.servers(); ++server) {
    wire::Header answer;
    MILLRACE_ASSIGN_OR_RETURN(const auto pulled, Await(server, wire::WEIGHTS, answer));
    MILLRACE_RETURN_IF_ERROR(TakeWeightsOf(pulled.payload, placed_[server], weights));
  }
  return go.progress();
}

absl::StatusOr<wire::Progress> ServerLinks::Ready(TensorSet& weights) {
  MILLRACE_RETURN_IF_ERROR(Say(wire::READY));
  return AwaitGo(weights);
}

std::string ServerLinks::GradientFor(int server, const TensorSet& gradient) const {
  std::string bytes;
  for (const size_t i : placed_[server]) AppendFloats(gradient[i], bytes);
  return bytes;
}

absl::StatusOr<wire::Progress> ServerLinks::Push(const TensorSet& gradient,
                                                 const wire::Report& report, TensorSet& weights) {
  wire::Header header = OfKind(wire::STAGE);
  header.mutable_push()->set_worker(static_cast<uint32_t>(cluster_.index));
  header.mutable_push()->set_life(life_);
  header.mutable_push()->set_number(number_++);
  for (int server = 1; server < cluster_.servers(); ++server) {
    MILLRACE_RETURN_IF_ERROR(Send(server, header, GradientFor(server, gradient)));
  }
  for (int server = 1; server < cluster_.servers(); ++server) {
    wire::Header answer;
    MILLRACE_RETURN_IF_ERROR(Await(server, wire::STAGED, answer).status());
  }
  header.set_kind(wire::CLAIM);
  header.set_version(version_);
  *header.mutable_report() = report;
  MILLRACE_RETURN_IF_ERROR(Send(0, header, GradientFor(0, gradient)));
  return AwaitGo(weights);
}

absl::StatusOr<wire::Progress> ServerLinks::AwaitVersion(uint64_t until, TensorSet& weights) {
  wire::Header header = OfKind(wire::WAIT);
  header.set_version(until);
  MILLRACE_RETURN_IF_ERROR(Send(0, header));
  return AwaitGo(weights);
}

absl::StatusOr<wire::Header> ServerLinks::TakeSnapshot(AllTensors& tensors) {
  wire::Header first;
  MILLRACE_RETURN_IF_ERROR(Say(wire::SNAPSHOT));
  MILLRACE_ASSIGN_OR_RETURN(const auto message, Await(0, wire::SNAPSHOT, first));
  MILLRACE_RETURN_IF_ERROR(TakeAll(message.payload, placed_[0], tensors));
  version_ = first.progress().version();
  wire::Header header = OfKind(wire::SNAPSHOT);
  header.set_version(version_);
  for (int server = 1; server < cluster_.servers(); ++server) {
    MILLRACE_RETURN_IF_ERROR(Send(server, header));
    wire::Header answer;
    MILLRACE_ASSIGN_OR_RETURN(const auto more, Await(server, wire::SNAPSHOT, answer));
    MILLRACE_RETURN_IF_ERROR(TakeAll(more.payload, placed_[server], tensors));
  }
  return first;
}

absl::Status ServerLinks::SaySaved(const std::string& checkpoint, bool is_last) {
  checkpoint_ = checkpoint;
  wire::Header header = OfKind(wire::SAVED);
  header.set_checkpoint(checkpoint);
  header.set_is_last(is_last);
  return Send(0, header);
}

absl::StatusOr<bool> ServerLinks::AwaitEnd() {
  wire::Header end;
  if (!has_ended_) {
    const absl::Status awaited = Await(0, wire::END, end).status();
    if (awaited.ok()) (void)NoteEnd(end);
    if (!has_ended_) return awaited;
  }
  return is_stopped_;
}

void ServerLinks::SayFailed(const absl::Status& why) {
  if (links_.empty()) return;
  wire::Header header = OfKind(wire::FAILED);
  *header.mutable_error() = ErrorOf(why);
  (void)links_[0]->Send(header.SerializeAsString(), "", kReason);
}

absl::Status ServerLinks::SayAlive() {
  const auto now = std::chrono::steady_clock::now();
  if (now - said_alive_ < kAliveEvery) return absl::OkStatus();
  said_alive_ = now;
  return Say(wire::ALIVE);
}

}  // namespace millrace::trainer
