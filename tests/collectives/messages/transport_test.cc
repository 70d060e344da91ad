// The communicator over messages: the conformance suites over a network in memory, and what it does
// when that network does harm.
#include <atomic>
#include <thread>

#include "collectives/messages/exchange.h"
#include "collectives/messages/task.h"
#include "gmock/gmock.h"
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/messages/memory_transport.h"
#include "tests/collectives/reducer/reducer_conformance.h"
#include "tests/collectives/turn_clock.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

using ::testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(ToStd(status.message())); }

Backend Memory(int size) {
  return {absl::StrCat("memory", size), [size](const RankBody& body) {
            return RunMemoryRanks(*MemoryNetwork::Make(size), size, body);
          }};
}

// Many pieces and rounds in every call.
TransportOptions TinyPieces() {
  TransportOptions options;
  options.piece_bytes = 4096;
  options.round_bytes = 9000;
  options.gather_bytes = 300;
  return options;
}

Backend Tiny(int size) {
  return {.name = absl::StrCat("tiny", size),
          .run =
              [size](const RankBody& body) {
                return RunMemoryRanks(*MemoryNetwork::Make(size), size, body, TinyPieces());
              },
          .keeps_messages = true};
}

std::vector<Backend> Backends() {
  std::vector<Backend> backends = {Tiny(2), Tiny(5)};
  for (const int size : Sizes()) backends.push_back(Memory(size));
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Memory, CommunicatorConformance, testing::ValuesIn(Backends()),
                         BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Memory, ReducerConformance, testing::Values(Memory(3), Tiny(4)),
                         BackendInstanceName);

// Runs `body` on `size` ranks of `network`; returns each rank's own status.
std::vector<absl::Status> Outcomes(MemoryNetwork& network, int size, const RankBody& body,
                                   const TransportOptions& options = {}) {
  std::vector<absl::Status> outcomes(size);
  const auto keep = [&](Communicator& comm) {
    outcomes[comm.rank()] = body(comm);
    return absl::OkStatus();
  };
  const absl::Status run = RunMemoryRanks(network, size, keep, options);
  EXPECT_TRUE(run.ok()) << run;
  return outcomes;
}

absl::Status SumOfMany(Communicator& comm) {
  Buffer data(DType::kF32, 100003, comm.rank());
  return comm.AllReduce(data.view(), ReduceOp::kSum);
}

// Without a timeout: who meets the dead rank tells those who wait for others.
TEST(Transport, ADeadPeerEndsTheCallOfEveryRank) {
  const auto network = MemoryNetwork::Make(5);
  std::atomic<int> failed = 0;
  const auto outcomes = Outcomes(*network, 5, [&](Communicator& comm) {
    const absl::Status came = comm.Barrier();  // the dead rank may still be in it for others
    if (comm.rank() == 3) {
      network->Kill(3);
      for (int seen = 0; seen < 4; seen = failed.load()) failed.wait(seen);
      return comm.Barrier();
    }
    const absl::Status outcome = came.ok() ? SumOfMany(comm) : came;
    failed.fetch_add(1);
    failed.notify_all();
    return outcome;
  });
  for (const absl::Status& outcome : outcomes) {
    EXPECT_TRUE(absl::IsUnavailable(outcome)) << outcome;
  }
}

// Rank 2 ends the first call and leaves; rank 1 needs it for the second and tells rank 0, to whom
// what rank 2 had sent is still on its way.
TEST(Transport, ALeaverThatAThirdRankTellsOfEndsNoCallThatBothHaveEnded) {
  const auto network = MemoryNetwork::Make(3);
  network->HoldTo(2, 0);
  std::atomic<bool> told = false;
  std::atomic<bool> done = false;
  const auto outcomes = Outcomes(*network, 3, [&](Communicator& comm) -> absl::Status {
    int32_t value = comm.rank();
    const TensorView view = {&value, DType::kI32, Shape{1}};
    const auto first = comm.Start(
        {.kind = Collective::kBroadcast, .in = view, .out = view, .peer = 2, .agreed = true});
    if (comm.rank() == 0) {
      told.wait(false);
      for (int i = 0; i < 20 && !first->Poll();) ++i;  // it hears rank 1
      network->Release(2);
    }
    const absl::Status ended = first->Wait();
    if (comm.rank() == 2) comm.Leave(absl::UnavailableError("it had enough"));
    const absl::Status second = comm.Barrier();
    if (comm.rank() == 1) {
      told = true;
      told.notify_all();
    }
    if (comm.rank() == 0) {
      done = true;
      done.notify_all();
    }
    done.wait(false);
    MILLRACE_RETURN_IF_ERROR(ended);
    if (value != 2) return Fail("another value");
    return absl::IsUnavailable(second) ? absl::OkStatus() : Fail(second.ToString());
  });
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
}

TEST(Transport, WhatALeaverHadSentIsReceived) {
  const auto network = MemoryNetwork::Make(2);
  const auto outcomes = Outcomes(*network, 2, [&](Communicator& comm) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto group, comm.Split(0, comm.rank()));
    Buffer data(DType::kF32, 10, 1);
    if (group->rank() == 1) {
      MILLRACE_RETURN_IF_ERROR(group->Send(data.view(), 0));
      group->Leave(absl::UnavailableError("it had enough"));
      return comm.Barrier();
    }
    while (group->Heard().ok()) std::this_thread::yield();
    Buffer received(DType::kF32, 10);
    MILLRACE_RETURN_IF_ERROR(group->Recv(received.view(), 1));
    if (received.bytes() != data.bytes()) return Fail("other data");
    if (!absl::IsUnavailable(group->Recv(received.view(), 1))) return Fail("a second message");
    return comm.Barrier();
  });
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
}

// The rank that a thread is, to a TurnClock.
thread_local int turning_rank = 0;

// The same with a timeout of 500 ms by the clock of the first `num_present` ranks: those that wait.
std::vector<absl::Status> TimedOutcomes(MemoryNetwork& network, int size, int num_present,
                                        const RankBody& body) {
  TurnClock clock(num_present, std::chrono::milliseconds(10));
  TransportOptions options;
  options.clock = [&clock] { return clock.Ask(turning_rank); };
  const auto timed = [&](Communicator& comm) {
    turning_rank = comm.rank();
    comm.set_timeout(std::chrono::milliseconds(500));
    const absl::Status outcome = body(comm);
    if (comm.rank() < num_present) clock.Leave(comm.rank());
    return outcome;
  };
  return Outcomes(network, size, timed, options);
}

TEST(Transport, LostMessagesEndWithTheTimeout) {
  const auto network = MemoryNetwork::Make(3);
  network->Drop(1);
  const auto outcomes = TimedOutcomes(*network, 3, 3, SumOfMany);
  for (const absl::Status& outcome : outcomes) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(outcome)) << outcome;
  }
  EXPECT_THAT(Text(outcomes[0]), HasSubstr("; rank 1 did not come"));
  EXPECT_THAT(Text(outcomes[0]), HasSubstr("AllReduce has not ended within 500 ms"));
}

TEST(Transport, PollingWaitsForNobody) {
  const auto network = MemoryNetwork::Make(2);
  network->Hold(1);
  std::atomic<bool> polled = false;
  const auto outcomes = Outcomes(*network, 2, [&](Communicator& comm) {
    Buffer data(DType::kF32, 100003, comm.rank());
    const auto begun = comm.Start({Collective::kAllReduce, data.view(), data.view()});
    if (comm.rank() == 0) {
      for (int i = 0; i < 100; ++i) {
        if (begun->Poll()) return Fail("ended without its peer");
      }
      network->Release(1);
      polled.store(true);
      polled.notify_all();
    } else {
      polled.wait(false);
    }
    MILLRACE_RETURN_IF_ERROR(begun->Wait());
    return data.Check(ReduceOp::kSum, 2, 0, 100003, 0);
  });
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
}

TEST(Transport, AnOperationNamesThePeerThatItWaitsFor) {
  constexpr int kLate = 2;
  std::atomic<int> named = 0;
  const absl::Status status =
      RunMemoryRanks(*MemoryNetwork::Make(3), 3, [&](Communicator& comm) -> absl::Status {
        if (comm.rank() == kLate) {
          for (int seen = 0; seen < 2; seen = named.load()) named.wait(seen);
        }
        Buffer data(DType::kF32, 100003, comm.rank());
        const auto sum = comm.Start({Collective::kAllReduce, data.view(), data.view()});
        if (comm.rank() != kLate) {
          while (sum->AwaitedPeer() != kLate) {
            if (sum->Poll()) return Fail("nobody was awaited");
            std::this_thread::yield();
          }
          named.fetch_add(1);
          named.notify_all();
        }
        MILLRACE_RETURN_IF_ERROR(sum->Wait());
        return sum->AwaitedPeer() == -1 ? absl::OkStatus() : Fail("it has ended");
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Transport, AFailingRankWakesPeersInAllItsGroups) {
  const auto network = MemoryNetwork::Make(4);
  std::vector<absl::Status> outcomes(4);
  const absl::Status run = RunMemoryRanks(*network, 4, [&](Communicator& comm) {
    const auto half = comm.Split(comm.rank() / 2, 0);
    if (!half.ok()) return outcomes[comm.rank()] = half.status();
    if (comm.rank() == 2) {
      const absl::Status corrupt = absl::DataLossError("shard 7 is corrupt");
      comm.Abort(corrupt);
      return corrupt;
    }
    return outcomes[comm.rank()] = comm.rank() == 3 ? (*half)->Barrier() : SumOfMany(comm);
  });
  EXPECT_TRUE(absl::IsDataLoss(run)) << run;
  for (const int rank : {0, 1, 3}) {
    EXPECT_MESSAGE(outcomes[rank], absl::StatusCode::kCancelled, absl::StrCat("rank", rank));
  }
}

TEST(Transport, WhatIsWrongWithARanksArgumentsIsToldToAll) {
  const auto network = MemoryNetwork::Make(3);
  const auto outcomes = Outcomes(*network, 3, [](Communicator& comm) {
    Buffer data(comm.rank() == 1 ? DType::kBytes : DType::kF32, 6);
    return comm.AllReduce(data.view(), ReduceOp::kSum);
  });
  for (const absl::Status& outcome : outcomes) {
    EXPECT_MESSAGE(outcome, absl::StatusCode::kInvalidArgument, "every-rank");
  }
}

TEST(Transport, RanksThatCutMessagesInOtherWaysAreToldSo) {
  const auto network = MemoryNetwork::Make(2);
  std::vector<std::unique_ptr<Communicator>> ranks;
  ranks.push_back(MakeTransportCommunicator(network->Connect(0)));
  ranks.push_back(MakeTransportCommunicator(network->Connect(1), TinyPieces()));
  std::jthread other([&] { EXPECT_TRUE(absl::IsInvalidArgument(SumOfMany(*ranks[1]))); });
  const absl::Status status = SumOfMany(*ranks[0]);
  EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument);
}

// A rank whose peer sends what was agreed on otherwise.
TEST(Transport, AMessageOfAnotherSizeThanWasAgreedEndsTheGroup) {
  const auto network = MemoryNetwork::Make(2);
  const auto outcomes = Outcomes(*network, 2, [](Communicator& comm) {
    Buffer data(DType::kF32, comm.rank() == 0 ? 10 : 11, comm.rank());
    Request request{Collective::kAllReduce, data.view(), data.view()};
    request.agreed = true;
    const absl::Status outcome = comm.Run(request);
    EXPECT_FALSE(comm.Barrier().ok());
    return outcome;
  });
  EXPECT_FALSE(outcomes[0].ok());
  EXPECT_FALSE(outcomes[1].ok());
}

// Its memory may still be written to, where a message that has begun cannot be taken back.
TEST(Transport, ACoroutineWhoseMessageFailsIsNotResumed) {
  for (const bool at_once : {true, false}) {
    const auto network = MemoryNetwork::Make(2);
    const auto transport = network->Connect(0);
    Channel channel(*transport, 0);
    std::byte data[8];
    bool resumed = false;
    const auto receive = [&]() -> Task {
      Exchange exchange(channel);
      exchange.Receive(data, 1);
      co_await exchange.Ended();
      resumed = true;
      co_return absl::OkStatus();
    };
    if (at_once) network->Kill(0);
    Task task = receive();
    task.Begin();
    network->Kill(0);
    EXPECT_FALSE(channel.Progress());
    EXPECT_FALSE(resumed || task.ended());
    EXPECT_MESSAGE(channel.failure(), absl::StatusCode::kUnavailable,
                   at_once ? "at-once" : "later");
  }
}

TEST(Transport, ARankWithoutMemorySaysSoAndItsPeersLearnOfIt) {
  for (const bool at_the_start : {true, false}) {
    const auto network = MemoryNetwork::Make(3);
    std::atomic<bool> starves = false;
    const auto outcomes = Outcomes(*network, 3, [&](Communicator& comm) {
      MILLRACE_RETURN_IF_ERROR(comm.Barrier());
      if (comm.rank() != 1) {
        starves.wait(false);  // or the sum might end before
        return SumOfMany(comm);
      }
      if (at_the_start) network->Starve(1);
      Buffer data(DType::kF32, 100003, 1);
      const auto sum = comm.Start({Collective::kAllReduce, data.view(), data.view()});
      network->Starve(1);
      starves = true;
      starves.notify_all();
      return sum->Wait();
    });
    EXPECT_MESSAGE(outcomes[1], absl::StatusCode::kResourceExhausted, "own");
    for (const int rank : {0, 2}) {
      EXPECT_TRUE(absl::IsUnavailable(outcomes[rank])) << outcomes[rank];
      EXPECT_THAT(Text(outcomes[rank]), HasSubstr("rank 1"));
    }
  }
}

TEST(Transport, AnExceptionThatLeavesAWaitBreaksTheGroup) {
  const auto network = MemoryNetwork::Make(2);
  network->Hold(1);
  const auto communicator = MakeTransportCommunicator(network->Connect(0));
  const auto peer = MakeTransportCommunicator(network->Connect(1));
  communicator->set_limits({std::chrono::nanoseconds(0), []() -> absl::Status { throw 5; }});
  EXPECT_THROW((void)communicator->Barrier(), int);
  EXPECT_TRUE(absl::IsCancelled(communicator->Barrier()));
}

TEST(Transport, TheRollCallOfManyRanksNamesOnlyWhoDidNotCome) {
  constexpr int kSize = 32;
  const auto network = MemoryNetwork::Make(kSize);
  std::atomic<int> gave_up = 0;
  const auto outcomes = TimedOutcomes(*network, kSize, kSize - 1, [&](Communicator& comm) {
    if (comm.rank() == kSize - 1) {
      for (int given = 0; given < kSize - 1; given = gave_up.load()) gave_up.wait(given);
      return absl::OkStatus();
    }
    const absl::Status outcome = comm.Barrier();
    gave_up.fetch_add(1);
    gave_up.notify_all();
    return outcome;
  });
  for (int rank = 0; rank < kSize - 1; ++rank) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(outcomes[rank])) << outcomes[rank];
    EXPECT_THAT(Text(outcomes[rank]), HasSubstr("; rank 31 did not come"));
  }
}

}  // namespace
}  // namespace millrace::collectives
