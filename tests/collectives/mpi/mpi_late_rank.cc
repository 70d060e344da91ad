// What breaks a group, over MPI: the scenarios of group_conformance.h that its tests leave to a job
// of its own. The last rank does not come before the others' time is over or their watch ends the
// wait, drops a group or leaves it, makes another call than agreed. The program owns MPI: it starts
// and ends it, and what was ended cannot be started again. Exits 0 when everything was as it should
// be.
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/mpi/connect_mpi.h"
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/missing_ranks.h"
#include "tests/collectives/mpi/own_mpi.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {
namespace {

constexpr int kTag = 5;

// The last rank waits until all others are done. Not by what is under test.
void AwaitOthers(const Communicator& comm) {
  char word = 0;
  for (int rank = 0; rank + 1 < comm.size(); ++rank) {
    MPI_Recv(&word, 1, MPI_CHAR, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

void TellTheLast(const Communicator& comm) {
  const char word = 0;
  MPI_Send(&word, 1, MPI_CHAR, comm.size() - 1, kTag, MPI_COMM_WORLD);
}

bool IsLast(const Communicator& comm) { return comm.rank() == comm.size() - 1; }

// MPI may write to the memory of a call that was given up until the process ends.
TensorView KeptMemory(const Communicator& comm, size_t count) {
  static std::vector<std::unique_ptr<Buffer>> kept;
  kept.push_back(std::make_unique<Buffer>(DType::kF32, count, comm.rank()));
  return kept.back()->view();
}

absl::Status SumLate(Communicator& comm) {
  return comm.AllReduce(KeptMemory(comm, 300007), ReduceOp::kSum);
}

absl::Status BegunLate(Communicator& comm) {
  return BegunAndAwaited(comm, KeptMemory(comm, 300007));
}

absl::Status PolledLate(Communicator& comm) {
  return BegunAndPolled(comm, KeptMemory(comm, 300007));
}

absl::Status SplitLate(Communicator& comm) { return comm.Split(0, 0).status(); }

// All get DEADLINE_EXCEEDED, and the others the name of the late one. `comes`: it comes in the end.
absl::Status ExpectLate(Communicator& comm, const RankBody& call, bool comes = true) {
  comm.set_timeout(std::chrono::milliseconds(50));
  if (IsLast(comm)) AwaitOthers(comm);
  if (IsLast(comm) && !comes) return absl::OkStatus();
  const absl::Status outcome = call(comm);
  if (!IsLast(comm)) TellTheLast(comm);
  if (!absl::IsDeadlineExceeded(outcome)) return Fail(outcome.ToString());
  const bool named = IsLast(comm) || NamesAsMissing(outcome, comm.size() - 1);
  return named ? absl::OkStatus() : Fail(outcome.ToString());
}

// Of two or four ranks the late one would have all that it needs.
absl::Status BarrierLate(Communicator& comm) {
  const auto barrier = [](Communicator& all) { return all.Barrier(); };
  return ExpectLate(comm, barrier, /*comes=*/false);
}

// A watch ends the wait of the others, whichever is asked first.
absl::Status ExpectWatched(Communicator& comm, const RankBody& call) {
  if (IsLast(comm)) {
    AwaitOthers(comm);
    return absl::OkStatus();
  }
  std::atomic<int> asked = 0;
  comm.set_limits({std::chrono::nanoseconds(0), [&asked] {
                     return ++asked < 3 ? absl::OkStatus()
                                        : absl::FailedPreconditionError("rank 7 stalls");
                   }});
  const absl::Status outcome = call(comm);
  comm.set_limits({});
  TellTheLast(comm);
  // UNAVAILABLE from a peer whose watch was faster.
  const bool told = (absl::IsFailedPrecondition(outcome) || absl::IsUnavailable(outcome)) &&
                    absl::StrContains(outcome.message(), "rank 7 stalls");
  return told ? absl::OkStatus() : Fail(outcome.ToString());
}

absl::Status ReceiveFromTheLast(Communicator& comm) {
  return comm.Recv(KeptMemory(comm, 5), comm.size() - 1);
}

absl::Status BadArgumentsOfAnAgreedCall(Communicator& comm) {
  const TensorView data = KeptMemory(comm, 6);
  Request request{Collective::kAllReduce, data, data};
  if (IsLast(comm)) request.in.dtype = request.out.dtype = DType::kBytes;
  request.agreed = true;
  comm.set_timeout(std::chrono::seconds(20));
  const absl::Status outcome = comm.Run(request);
  const bool silent = outcome.ok() || absl::IsDeadlineExceeded(outcome);
  return silent ? Fail(outcome.ToString()) : absl::OkStatus();
}

absl::Status AMessageThatDoesNotCome(Communicator& comm) {
  if (IsLast(comm)) AwaitOthers(comm);
  if (IsLast(comm)) return absl::OkStatus();
  comm.set_timeout(std::chrono::milliseconds(50));
  const absl::Status outcome = comm.Recv(KeptMemory(comm, 50000), comm.size() - 1);
  TellTheLast(comm);
  return absl::IsDeadlineExceeded(outcome) ? absl::OkStatus() : Fail(outcome.ToString());
}

absl::Status AMessageThatNobodyReceives(Communicator& comm) {
  if (IsLast(comm)) AwaitOthers(comm);
  if (IsLast(comm)) return absl::OkStatus();
  comm.set_timeout(std::chrono::milliseconds(50));
  const absl::Status outcome = comm.Send(KeptMemory(comm, kLongMessage), comm.size() - 1);
  TellTheLast(comm);
  const std::string name = absl::StrCat("rank ", comm.size() - 1, " does not receive");
  const bool named = absl::StrContains(outcome.message(), name);
  return absl::IsDeadlineExceeded(outcome) && named ? absl::OkStatus() : Fail(outcome.ToString());
}

struct Scenario {
  const char* name;
  RankBody body;
};

std::vector<Scenario> Scenarios() {
  const auto late = [](const RankBody& call) {
    return [call](Communicator& comm) { return ExpectLate(comm, call); };
  };
  const auto watched = [](const RankBody& call) {
    return [call](Communicator& comm) { return ExpectWatched(comm, call); };
  };
  return {{"a late sum", late(SumLate)},
          {"a late split", late(SplitLate)},
          {"a late begun sum", late(BegunLate)},
          {"a late polled sum", late(PolledLate)},
          {"a late barrier", BarrierLate},
          {"a watched sum", watched(SumLate)},
          {"a watched barrier", watched([](Communicator& comm) { return comm.Barrier(); })},
          {"a watched split", watched(SplitLate)},
          {"a watched message", watched(ReceiveFromTheLast)},
          {"a dropped group", DropAGroup},
          {"a rank that leaves", LeaveAGroup},
          {"hearing who has left", HearWhoHasLeft},
          {"bad arguments of an agreed call", BadArgumentsOfAnAgreedCall},
          {"a message that does not come", AMessageThatDoesNotCome},
          {"a message that nobody receives", AMessageThatNobodyReceives}};
}

// Each with a group of its own: what breaks one is no business of the next.
absl::Status Run() {
  std::vector<std::unique_ptr<Communicator>> groups;
  for (size_t i = 0; i < Scenarios().size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> group, ConnectMpi({}));
    groups.push_back(std::move(group));
  }
  MILLRACE_RETURN_IF_ERROR(groups.back()->Barrier());
  for (size_t i = 0; i < groups.size(); ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const Scenario scenario = Scenarios()[i];
    MILLRACE_RETURN_IF_ERROR(Annotate(scenario.body(*groups[i]), scenario.name));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::collectives

int main() {
  if (!millrace::collectives::RunInOwnMpi(&millrace::collectives::Run)) return 1;
  const absl::Status again = millrace::collectives::ConnectMpi({}).status();
  if (absl::IsFailedPrecondition(again)) return 0;
  std::cerr << again << "\n";
  return 1;
}
