// Two hosts, one of which is the test.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/watch/links.h"
#include "gmock/gmock.h"
#include "tests/collectives/processes.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::seconds kLong{60};  // a guard against hangs

// What the test's rank does with the others in WatchdogLinks::Make: it leads a host of its own, ...
absl::Status CountHosts(Communicator& job) {
  int64_t hosts = 1;
  return job.AllReduce(TensorView{&hosts, DType::kI64, Shape{1}}, ReduceOp::kSum);
}
absl::Status Tell(Communicator& job, WatchdogRendezvous* rendezvous) {
  return job.Broadcast({rendezvous, DType::kU8, Shape{sizeof(*rendezvous)}}, 0);
}
// ... and did not fail.
absl::Status Agree(Communicator& job) {
  int64_t failed = job.size();
  return job.AllReduce(TensorView{&failed, DType::kI64, Shape{1}}, ReduceOp::kMin);
}

std::vector<std::string> AddressesIn(const WatchdogRendezvous& rendezvous) {
  std::vector<std::string> addresses;
  for (const auto& told : rendezvous.addresses) {
    if (told.size > 0) addresses.emplace_back(told.bytes.data(), told.size);
  }
  return addresses;
}
void Add(const std::string& address, WatchdogRendezvous::Address* told) {
  told->size = address.copy(told->bytes.data(), told->bytes.size());
}
std::string BytesOf(uint64_t nonce) {
  return {reinterpret_cast<const char*>(&nonce), sizeof(nonce)};
}
// Of rank 1, alone on its host.
std::string GreetingOfOne(uint64_t nonce) {
  return BytesOf(nonce) + BytesOf(1) + std::string("\1\0\0\0", 4);
}
absl::Status Expect(const Socket& socket, const std::string& wanted) {
  std::string said(wanted.size(), '\0');
  MILLRACE_RETURN_IF_ERROR(ReceiveAll(socket, said.data(), said.size(), After(kLong)));
  return said == wanted ? absl::OkStatus() : absl::InternalError("something else was said");
}
absl::StatusOr<Socket> Taken(const Socket& listener) {
  if (!WaitFor(listener, POLLIN, After(kLong))) return absl::DeadlineExceededError("nobody");
  return Accept(listener);
}

absl::Status IsLinked(Communicator& job, const std::string& address) {
  std::unique_ptr<WatchdogLinks> links;
  MILLRACE_RETURN_IF_ERROR(WatchdogLinks::Make(job, true, {job.rank()}, address, &links));
  return links != nullptr ? absl::OkStatus() : absl::InternalError("no links");
}

absl::Status ConnectAfterStrangers(Communicator& job) {
  WatchdogRendezvous rendezvous;
  MILLRACE_RETURN_IF_ERROR(CountHosts(job));
  MILLRACE_RETURN_IF_ERROR(Tell(job, &rendezvous));
  const std::vector<std::string> addresses = AddressesIn(rendezvous);
  if (addresses.size() != 1) return absl::InternalError("not one address");
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(Socket stranger, Connect(addresses[0], After(kLong)));
    strangers.push_back(std::move(stranger));
  }
  // One that gives its connection up, too.
  for (const bool given_up : {true, false}) {
    MILLRACE_ASSIGN_OR_RETURN(Socket socket, Connect(addresses[0], After(kLong)));
    MILLRACE_RETURN_IF_ERROR(SendAll(socket, GreetingOfOne(rendezvous.nonce), After(kLong)));
    MILLRACE_RETURN_IF_ERROR(Expect(socket, BytesOf(~rendezvous.nonce)));
    if (given_up) continue;
    MILLRACE_RETURN_IF_ERROR(SendAll(socket, BytesOf(rendezvous.nonce), After(kLong)));
    strangers.push_back(std::move(socket));
  }
  return Agree(job);
}

TEST(WatchdogLinksTest, WhoSaysNothingKeepsNoLeaderWaiting) {
  const absl::Status status = RunRanks(2, [](Communicator& job) {
    return job.rank() == 0 ? IsLinked(job, "127.0.0.1") : ConnectAfterStrangers(job);
  });
  EXPECT_TRUE(status.ok()) << status;
}

absl::Status AnswerAtTheThirdAddress(Communicator& job) {
  WatchdogRendezvous rendezvous;
  rendezvous.nonce = 1234;
  MILLRACE_ASSIGN_OR_RETURN(const Socket other, Listen("127.0.0.1", 0));
  MILLRACE_ASSIGN_OR_RETURN(const int other_port, PortOf(other));
  MILLRACE_ASSIGN_OR_RETURN(const Socket own, Listen("127.0.0.1", 0));
  MILLRACE_ASSIGN_OR_RETURN(const int own_port, PortOf(own));
  Add(LoopbackAddress(FreePort()), &rendezvous.addresses[0]);
  Add(LoopbackAddress(other_port), &rendezvous.addresses[1]);
  Add(LoopbackAddress(own_port), &rendezvous.addresses[2]);
  MILLRACE_RETURN_IF_ERROR(CountHosts(job));
  MILLRACE_RETURN_IF_ERROR(Tell(job, &rendezvous));
  MILLRACE_ASSIGN_OR_RETURN(const Socket misled, Taken(other));
  MILLRACE_RETURN_IF_ERROR(SendAll(misled, "HTTP/1.1 400 Bad Request", After(kLong)));
  MILLRACE_ASSIGN_OR_RETURN(const Socket leader, Taken(own));
  MILLRACE_RETURN_IF_ERROR(Expect(leader, GreetingOfOne(rendezvous.nonce)));
  MILLRACE_RETURN_IF_ERROR(SendAll(leader, BytesOf(~rendezvous.nonce), After(kLong)));
  MILLRACE_RETURN_IF_ERROR(Expect(leader, BytesOf(rendezvous.nonce)));
  return Agree(job);
}

TEST(WatchdogLinksTest, AllAddressesOfRankZeroAreTried) {
  const absl::Status status = RunRanks(2, [](Communicator& job) {
    return job.rank() == 0 ? AnswerAtTheThirdAddress(job) : IsLinked(job, "");
  });
  EXPECT_TRUE(status.ok()) << status;
}

absl::Status CompareAddresses(Communicator& job) {
  WatchdogRendezvous rendezvous;
  MILLRACE_RETURN_IF_ERROR(CountHosts(job));
  MILLRACE_RETURN_IF_ERROR(Tell(job, &rendezvous));
  const std::vector<std::string> told = AddressesIn(rendezvous);
  // Ended by rank 0's error otherwise.
  MILLRACE_ASSIGN_OR_RETURN(const Socket socket, Connect(told.at(0), After(kLong)));
  MILLRACE_RETURN_IF_ERROR(
      SendAll(socket, GreetingOfOne(rendezvous.nonce) + BytesOf(rendezvous.nonce), After(kLong)));
  MILLRACE_RETURN_IF_ERROR(Agree(job));
  const size_t own = OwnAddresses("", 1).size();
  return told.size() == std::max<size_t>(own, 1)
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat("told ", told.size(), ", has ", own));
}

TEST(WatchdogLinksTest, RankZeroTellsAllItsAddresses) {
  const absl::Status status = RunRanks(2, [](Communicator& job) {
    return job.rank() == 0 ? IsLinked(job, "") : CompareAddresses(job);
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::collectives
