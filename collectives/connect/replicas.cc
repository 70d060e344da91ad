// Several ranks per process. The processes are connected already, so their communicator takes the
// place of a rendezvous: through it the ranks tell each other where they listen. After that it is
// idle. Every rank has connections of its own to all others, those of its process too; gradients of
// the ranks of one host are summed in shared memory all the same, as for ranks that are processes.

#include "collectives/replicas.h"

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/factory.h"
#include "collectives/gather_texts.h"
#include "collectives/messages/transport_communicator.h"
#include "collectives/net/wire.h"
#include "collectives/tcp/connect_tcp.h"

namespace millrace::collectives {
namespace {

using Communicators = std::vector<std::unique_ptr<Communicator>>;

// The ranks of one process before they are connected.
struct Seats {
  std::vector<TcpSeat> seats;
  absl::Status status;  // the outcome of opening them

  std::string Encode() const {
    WireWriter writer;
    writer.Add(static_cast<uint32_t>(seats.size())).Add(ToStd(status.message()));
    for (const TcpSeat& seat : seats) writer.Add(seat.facts);
    return writer.text();
  }
};

Seats OpenSeats(int replicas) {
  Seats opened;
  for (int i = 0; i < replicas && opened.status.ok(); ++i) {
    absl::StatusOr<TcpSeat> seat = OpenTcpSeat("");
    opened.status = seat.status();
    if (seat.ok()) opened.seats.push_back(*std::move(seat));
  }
  return opened;
}

// The facts of all ranks, from what each process has told. Every process comes to the same outcome.
absl::StatusOr<std::vector<std::string>> FactsOf(const std::vector<std::string>& told) {
  std::vector<std::string> facts;
  uint32_t expected = 0;
  for (size_t process = 0; process < told.size(); ++process) {
    WireReader reader(told[process]);
    const auto count = reader.Number<uint32_t>();
    const std::string failure(reader.String());
    if (!failure.empty()) {
      return MarkAgreed(absl::UnavailableError(absl::StrCat("process ", process, ": ", failure)));
    }
    if (process == 0) expected = count;
    if (count != expected) {
      return MarkAgreed(absl::InvalidArgumentError(absl::StrCat(
          "process ", process, " has ", count, " replicas, process 0 has ", expected)));
    }
    for (uint32_t i = 0; i < count; ++i) facts.emplace_back(reader.String());
  }
  return facts;
}

// Connects this process's ranks, from `first` on, each on a thread: they wait for each other.
absl::StatusOr<Communicators> ConnectAll(const std::vector<TcpSeat>& seats, int first,
                                         const std::vector<std::string>& facts,
                                         std::chrono::nanoseconds timeout) {
  std::vector<absl::StatusOr<std::unique_ptr<Transport>>> connected(seats.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < seats.size(); ++i) {
      RendezvousOptions options;
      options.rank = first + static_cast<int>(i);
      options.size = static_cast<int>(facts.size());
      options.timeout = timeout;
      try {
        threads.emplace_back(
            [&, options, i] { connected[i] = ConnectSeated(seats[i], facts, options); });
      } catch (const std::system_error& error) {
        connected[i] = absl::ResourceExhaustedError(
            absl::StrCat("no thread for rank ", options.rank, ": ", error.what()));
      }
    }
  }
  Communicators ranks;
  for (auto& transport : connected) {
    if (!transport.ok()) return transport.status();
    ranks.push_back(MakeTransportCommunicator(*std::move(transport)));
  }
  return ranks;
}

}  // namespace

absl::StatusOr<Communicators> MakeReplicas(Communicator& processes, int replicas,
                                           std::chrono::nanoseconds connect_timeout) {
  if (replicas < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a process of ", replicas, " replicas"));
  }
  Communicators ranks;
  if (processes.size() == 1) {
    ranks = MakeThreadGroup(replicas);
  } else {
    const Seats own = OpenSeats(replicas);
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> told,
                              GatherTexts(processes, own.Encode()));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> facts, FactsOf(told));
    MILLRACE_ASSIGN_OR_RETURN(
        ranks, ConnectAll(own.seats, processes.rank() * replicas, facts, connect_timeout));
  }
  for (const auto& rank : ranks) rank->set_timeout(processes.timeout());
  return ranks;
}

}  // namespace millrace::collectives
