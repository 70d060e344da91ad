#ifndef MILLRACE_TESTS_COLLECTIVES_TCP_TCP_RANKS_H_
#define MILLRACE_TESTS_COLLECTIVES_TCP_TCP_RANKS_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/messages/transport_communicator.h"
#include "collectives/tcp/connect_tcp.h"
#include "tests/collectives/processes.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {

// A rank that is connected to the others by TCP.
inline absl::StatusOr<std::unique_ptr<Communicator>> ConnectTcpRank(const std::string& address,
                                                                    int rank, int size) {
  RendezvousOptions options;
  options.address = address;
  options.rank = rank;
  options.size = size;
  options.timeout = std::chrono::seconds(60);
  MILLRACE_ASSIGN_OR_RETURN(auto transport, ConnectTcp(options));
  return MakeTransportCommunicator(std::move(transport));
}

// `body` on one rank, which aborts the group where it fails.
inline absl::Status RunTcpRank(const std::string& address, int rank, int size,
                               const RankBody& body) {
  MILLRACE_ASSIGN_OR_RETURN(const auto communicator, ConnectTcpRank(address, rank, size));
  absl::Status outcome = body(*communicator);
  if (!outcome.ok()) communicator->Abort(outcome);
  return outcome;
}

// ... on threads. The status of the lowest rank that failed by itself.
inline absl::Status RunTcpRanks(int size, const RankBody& body) {
  const std::string address = absl::StrCat("tcp:127.0.0.1:", FreePort());
  std::vector<absl::Status> outcomes(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { outcomes[rank] = RunTcpRank(address, rank, size, body); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& outcome : outcomes) {
    if (!outcome.ok() && !absl::IsCancelled(outcome)) return outcome;
  }
  for (const absl::Status& outcome : outcomes) MILLRACE_RETURN_IF_ERROR(outcome);
  return absl::OkStatus();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_TCP_TCP_RANKS_H_
