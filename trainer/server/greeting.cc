#include "trainer/server/greeting.h"

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::trainer {
namespace {

using collectives::MessageConnection;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kConnect{2};
constexpr std::chrono::milliseconds kPause{100};
// A server that has taken a HELLO says every second that it is alive.
constexpr std::chrono::seconds kAnswer{10};

// The outcome of one attempt: no value, and the reason, where another one may succeed.
struct Attempt {
  std::optional<absl::StatusOr<Greeted>> outcome;
  absl::Status why;
};

bool IsStopped(const TrainOptions& options) {
  return options.stop != nullptr && options.stop->load(std::memory_order_relaxed);
}

Attempt Refused(const Greeting& greeting, const wire::Header& header) {
  const absl::Status status = StatusOf(header.error());
  if (header.kind() == wire::FAILED) return {status, status};
  if (absl::IsAlreadyExists(status)) return {std::nullopt, status};
  const absl::Status told =
      Annotate(status, NameOfServer(greeting.cluster, greeting.server) + " refuses this process");
  return {told, told};
}

Attempt AwaitWelcome(const Greeting& greeting, std::unique_ptr<MessageConnection> connection,
                     Clock::time_point deadline) {
  bool is_in = false;  // true: the server, which knows who is missing, keeps the time
  while ((is_in || Clock::now() < deadline) && !IsStopped(greeting.options)) {
    const auto message = connection->Receive(kAnswer);
    if (!message.ok()) return {std::nullopt, message.status()};
    auto header = Unpack(*message);
    if (!header.ok()) return {std::nullopt, header.status()};
    if (header->kind() == wire::WELCOME) {
      return {Greeted{std::move(connection), *std::move(header)}, absl::OkStatus()};
    }
    if (header->has_error()) return Refused(greeting, *header);
    is_in = is_in || header->kind() == wire::ALIVE;
  }
  return {std::nullopt, absl::DeadlineExceededError("the chief has not begun the training")};
}

Attempt Try(const Greeting& greeting, Clock::time_point deadline) {
  auto connection = MessageConnection::Connect(greeting.cluster.places[greeting.server], kConnect);
  if (absl::IsInvalidArgument(connection.status())) {
    return {connection.status(), connection.status()};
  }
  if (!connection.ok()) return {std::nullopt, connection.status()};
  wire::Header header = OfKind(wire::HELLO);
  *header.mutable_hello() = greeting.hello;
  header.mutable_hello()->set_protocol(kServerProtocol);
  const bool is_chief = !greeting.hello.is_server() && greeting.hello.index() == 0;
  (*connection)
      ->set_limits({HeaderLimit(is_chief, greeting.cluster.workers), greeting.payload_bytes});
  const absl::Status sent = (*connection)->Send(header.SerializeAsString(), "", kAnswer);
  if (!sent.ok()) return {std::nullopt, sent};
  return AwaitWelcome(greeting, *std::move(connection), deadline);
}

}  // namespace

absl::StatusOr<Greeted> Greet(const Greeting& greeting) {
  const std::chrono::milliseconds limit = greeting.options.start_timeout;
  const Clock::time_point deadline =
      limit.count() == 0 ? Clock::time_point::max() : Clock::now() + limit;
  while (true) {
    Attempt attempt = Try(greeting, deadline);
    if (attempt.outcome) return *std::move(attempt.outcome);
    if (IsStopped(greeting.options)) return absl::CancelledError("stopped by a signal");
    if (Clock::now() + kPause >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          NameOfServer(greeting.cluster, greeting.server), " has not taken this process in within ",
          limit.count(), " ms: ", attempt.why.message()));
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace millrace::trainer
