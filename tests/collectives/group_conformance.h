#ifndef MILLRACE_TESTS_COLLECTIVES_GROUP_CONFORMANCE_H_
#define MILLRACE_TESTS_COLLECTIVES_GROUP_CONFORMANCE_H_

// The second part of the communicators' conformance suite: the bits of sums, operations on their
// way together, groups of groups, calls that do not match, ranks that do not come.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "absl/strings/match.h"
#include "base/mutex.h"
#include "collectives/core/reduce.h"
#include "collectives/peer_lost.h"
#include "tests/collectives/communicator_conformance.h"
#include "tests/collectives/missing_ranks.h"
#include "tests/sanitized.h"

namespace millrace::collectives {

// Random numbers with both zeros among them; the same on every rank that asks.
inline Buffer RandomBuffer(DType dtype, size_t count, int rank) {
  Buffer buffer(dtype, count);
  std::mt19937 random(rank);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < count; ++i) {
    buffer.Set(i, i % 97 == 0 ? (rank % 2 == 0 ? 0.0 : -0.0) : normal(random));
  }
  return buffer;
}

// What a thread group makes of all ranks' random numbers. Ranks that are threads share it.
inline absl::StatusOr<std::vector<std::byte>> ReducedByThreads(DType dtype, size_t count,
                                                               ReduceOp op, int size) {
  static Mutex mu;
  static std::map<std::tuple<DType, size_t, ReduceOp, int>, std::vector<std::byte>> known;
  MutexLock lock(mu);
  std::vector<std::byte>& result = known[{dtype, count, op, size}];
  if (!result.empty()) return result;
  const absl::Status run = RunRanks(size, [&](Communicator& comm) {
    Buffer data = RandomBuffer(dtype, count, comm.rank());
    MILLRACE_RETURN_IF_ERROR(comm.AllReduce(data.view(), op));
    if (comm.rank() == 0) result = data.bytes();
    return absl::OkStatus();
  });
  MILLRACE_RETURN_IF_ERROR(run);
  return result;
}

TEST_P(CommunicatorConformance, FloatReductionsHaveTheBitsOfTheThreadsBackend) {
  if (!GetParam().same_bits) GTEST_SKIP() << "the library adds in an order of its own";
  RunOk([](Communicator& comm) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const ReduceOp op : kOps) {
        for (const size_t count : {101, 100003}) {
          if (kSanitized && count > 1000 && op != ReduceOp::kSum) continue;
          MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::byte> expected,
                                    ReducedByThreads(dtype, count, op, comm.size()));
          Buffer data = RandomBuffer(dtype, count, comm.rank());
          MILLRACE_RETURN_IF_ERROR(comm.AllReduce(data.view(), op));
          if (data.bytes() != expected) return Fail(absl::StrCat(data.Label(), ": other bits"));
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, WhatWasBegunEndsInAnyOrderOfWaiting) {
  RunOk([](Communicator& comm) {
    for (const size_t count : {10, 100003}) {
      std::vector<Buffer> data;
      for (int i = 0; i < 3; ++i) data.emplace_back(DType::kF32, count, comm.rank());
      Buffer gathered(DType::kF32, count * comm.size());
      std::vector<std::unique_ptr<Pending>> begun;
      begun.push_back(comm.Start({Collective::kAllReduce, data[0].view(), data[0].view()}));
      begun.push_back(comm.Start({Collective::kBroadcast, data[1].view(), data[1].view(),
                                  ReduceOp::kSum, comm.size() - 1}));
      begun.push_back(comm.Start({Collective::kAllGather, data[2].view(), gathered.view()}));
      begun.push_back(comm.Start({}));
      MILLRACE_RETURN_IF_ERROR(comm.Barrier());  // one that blocks, behind them
      if (comm.rank() % 2 == 1) std::reverse(begun.begin(), begun.end());
      for (const auto& pending : begun) MILLRACE_RETURN_IF_ERROR(pending->Wait());
      for (const auto& pending : begun) MILLRACE_RETURN_IF_ERROR(pending->Wait());  // again
      MILLRACE_RETURN_IF_ERROR(data[0].Check(ReduceOp::kSum, comm.size(), 0, count, 0));
      if (count > 0 && data[1].Get(5) != Value(comm.size() - 1, 5)) return Fail("broadcast");
      MILLRACE_RETURN_IF_ERROR(CheckGathered(comm, gathered, count));
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, WhatWasBegunEndsByPolling) {
  RunOk([](Communicator& comm) {
    Buffer data(DType::kF64, 20000, comm.rank());
    const auto sum = comm.Start({Collective::kAllReduce, data.view(), data.view()});
    const auto barrier = comm.Start({});
    while (!barrier->Poll() || !sum->Poll()) std::this_thread::yield();
    MILLRACE_RETURN_IF_ERROR(sum->Wait());
    return data.Check(ReduceOp::kSum, comm.size(), 0, 20000, 0);
  });
}

TEST_P(CommunicatorConformance, EveryoneMaySendAndReceiveAtOnce) {
  if (!GetParam().begun_messages_meet) GTEST_SKIP() << "begun messages run one after the other";
  RunOk([](Communicator& comm) {
    constexpr size_t kCount = 50001;
    if (comm.size() == 1) return absl::OkStatus();
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    std::vector<Buffer> sent;
    std::vector<Buffer> received;
    std::vector<std::unique_ptr<Pending>> begun;
    for (int i = 0; i < 3; ++i) {
      sent.emplace_back(DType::kF32, kCount, comm.rank() + i);
      received.emplace_back(DType::kF32, kCount);
    }
    for (int i = 0; i < 3; ++i) {
      begun.push_back(comm.Start({Collective::kSend, sent[i].view(), {}, ReduceOp::kSum, next}));
      begun.push_back(
          comm.Start({Collective::kRecv, {}, received[i].view(), ReduceOp::kSum, previous}));
    }
    for (const auto& pending : begun) MILLRACE_RETURN_IF_ERROR(pending->Wait());
    for (int i = 0; i < 3; ++i) {
      if (received[i].bytes() != Buffer(DType::kF32, kCount, previous + i).bytes()) {
        return Fail(absl::StrCat("message ", i));
      }
    }
    return comm.Barrier();
  });
}

TEST_P(CommunicatorConformance, CallsThatAreAgreedOnNeedNoComparison) {
  RunOk([](Communicator& comm) {
    for (const size_t count : {0, 10, 100003}) {
      Buffer data(DType::kF32, count, comm.rank());
      Request request{Collective::kAllReduce, data.view(), data.view()};
      request.agreed = true;
      MILLRACE_RETURN_IF_ERROR(comm.Run(request));
      MILLRACE_RETURN_IF_ERROR(data.Check(ReduceOp::kSum, comm.size(), 0, count, 0));
    }
    return absl::OkStatus();
  });
}

// One rank begins with a handle what the others call.
TEST_P(CommunicatorConformance, BegunAndBlockingCallsMeet) {
  RunOk([](Communicator& comm) {
    constexpr size_t kCount = 300007;
    Buffer data(DType::kF32, kCount, comm.rank());
    const Request request{Collective::kAllReduce, data.view(), data.view()};
    MILLRACE_RETURN_IF_ERROR(comm.rank() == 0 ? comm.Start(request)->Wait() : comm.Run(request));
    return data.Check(ReduceOp::kSum, comm.size(), 0, kCount, 0);
  });
}

inline absl::Status SumOver(Communicator& group, int value, int expected) {
  int32_t sum = value;
  MILLRACE_RETURN_IF_ERROR(
      group.AllReduce(TensorView{&sum, DType::kI32, Shape{1}}, ReduceOp::kSum));
  return sum == expected ? absl::OkStatus() : Fail(absl::StrCat(sum, " is not ", expected));
}

TEST_P(CommunicatorConformance, GroupsOfGroupsSumTheirOwnRanks) {
  RunOk([](Communicator& comm) {
    const int size = comm.size();
    const int rank = comm.rank();
    const auto sum_of = [size](auto&& in_group) {
      int sum = 0;
      for (int r = 0; r < size; ++r) sum += in_group(r) ? r : 0;
      return sum;
    };
    MILLRACE_ASSIGN_OR_RETURN(const auto world, comm.Split(0, 0));
    MILLRACE_ASSIGN_OR_RETURN(const auto reverse, comm.Split(0, -rank));
    MILLRACE_ASSIGN_OR_RETURN(const auto half, comm.Split(rank * 2 / size, 0));
    MILLRACE_ASSIGN_OR_RETURN(const auto parity, comm.Split(rank % 2, 0));
    MILLRACE_ASSIGN_OR_RETURN(const auto alone, comm.Split(rank, 0));
    MILLRACE_ASSIGN_OR_RETURN(const auto nested, half->Split(half->rank() % 2, 0));
    if (reverse->rank() != size - 1 - rank) return Fail("order of the reverse group");
    if (alone->size() != 1) return Fail("a group of one");
    const int all = sum_of([](int) { return true; });
    MILLRACE_RETURN_IF_ERROR(SumOver(*world, rank, all));
    MILLRACE_RETURN_IF_ERROR(SumOver(*reverse, rank, all));
    MILLRACE_RETURN_IF_ERROR(
        SumOver(*half, rank, sum_of([&](int r) { return r * 2 / size == rank * 2 / size; })));
    MILLRACE_RETURN_IF_ERROR(
        SumOver(*parity, rank, sum_of([&](int r) { return r % 2 == rank % 2; })));
    MILLRACE_RETURN_IF_ERROR(SumOver(*alone, rank, rank));
    MILLRACE_RETURN_IF_ERROR(nested->Barrier());
    return comm.Barrier();
  });
}

// A rank waits in one group while a peer waits for it in another.
TEST_P(CommunicatorConformance, WaitingInOneGroupGoesOnWithTheOthers) {
  RunOk([](Communicator& comm) {
    MILLRACE_ASSIGN_OR_RETURN(const auto other, comm.Split(0, 0));
    Buffer first(DType::kF32, 30000, comm.rank());
    Buffer second(DType::kF32, 30000, comm.rank());
    const auto a = comm.Start({Collective::kAllReduce, first.view(), first.view()});
    const auto b = other->Start({Collective::kAllReduce, second.view(), second.view()});
    Pending& awaited_first = comm.rank() % 2 == 0 ? *a : *b;
    MILLRACE_RETURN_IF_ERROR(awaited_first.Wait());
    MILLRACE_RETURN_IF_ERROR(a->Wait());
    MILLRACE_RETURN_IF_ERROR(b->Wait());
    return second.Check(ReduceOp::kSum, comm.size(), 0, 30000, 0);
  });
}

TEST_P(CommunicatorConformance, CallsThatDoNotMatchAreInvalidOnEveryRankAndHarmless) {
  RunOk([](Communicator& comm) {
    if (comm.size() == 1) return absl::OkStatus();
    const bool odd_one = comm.rank() == comm.size() - 1;
    Buffer data(DType::kF32, 12 * comm.size());
    Buffer whole(DType::kI32, 12 * comm.size());
    Buffer longer(DType::kF32, 12 * comm.size() + 1);
    Buffer bytes(DType::kBytes, 12 * comm.size());
    const absl::Status outcomes[] = {
        odd_one ? comm.Barrier() : comm.AllReduce(data.view(), ReduceOp::kSum),
        comm.AllReduce((odd_one ? longer : data).view(), ReduceOp::kSum),
        comm.AllReduce((odd_one ? whole : data).view(), ReduceOp::kSum),
        comm.AllReduce(data.view(), odd_one ? ReduceOp::kMax : ReduceOp::kSum),
        comm.Broadcast(data.view(), odd_one ? 1 : 0),
        comm.Reduce(data.view(), ReduceOp::kSum, odd_one ? 1 : 0),
        comm.AllReduce((odd_one ? bytes : data).view(), ReduceOp::kSum),
        comm.Split(odd_one ? -1 : 0, 0).status(),
        odd_one ? comm.Barrier() : comm.Split(0, 0).status(),
    };
    for (const absl::Status& outcome : outcomes) {
      if (!absl::IsInvalidArgument(outcome)) return Fail(absl::StrCat("got ", outcome.ToString()));
    }
    return comm.Barrier();
  });
}

// By messages the sender does not hear what the receiver makes of it; threads and ranks over NCCL
// compare their calls.
inline absl::Status ExpectSentUnequal(const Communicator& comm, const absl::Status& sent) {
  const bool compared = comm.backend() == "threads" || comm.backend() == "nccl";
  const bool good = compared ? absl::IsInvalidArgument(sent) : sent.ok();
  return good ? absl::OkStatus() : Fail(absl::StrCat("the sender got ", sent.ToString()));
}

TEST_P(CommunicatorConformance, AMessageOfAnotherSizeOrTypeIsInvalidAndHarmless) {
  RunOk([](Communicator& comm) {
    Buffer longer(DType::kF32, 50000);
    Buffer data(DType::kF32, 4);
    Buffer whole(DType::kI32, 4);
    for (Buffer* const sent : {&longer, &whole}) {
      for (const bool swapped : {false, true}) {
        if (comm.size() == 1) continue;
        if (comm.rank() == 0) {
          const absl::Status outcome = comm.Send((swapped ? data : *sent).view(), 1);
          MILLRACE_RETURN_IF_ERROR(ExpectSentUnequal(comm, outcome));
        }
        if (comm.rank() != 1) continue;
        const absl::Status received = comm.Recv((swapped ? *sent : data).view(), 0);
        if (!absl::IsInvalidArgument(received)) return Fail(received.ToString());
      }
    }
    return comm.Barrier();
  });
}

TEST_P(CommunicatorConformance, ARankThatDoesNotComeIsNamedOnceTheTimeIsOver) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  std::atomic<int> gave_up = 0;
  RunOk([&gave_up](Communicator& comm) {
    const int late = comm.size() - 1;
    if (late == 0) return absl::OkStatus();
    Buffer data(DType::kF32, 5);
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    comm.set_timeout(std::chrono::milliseconds(50));
    if (comm.rank() == late) {
      for (int given = 0; given < late; given = gave_up.load()) gave_up.wait(given);
    }
    const absl::Status outcome = comm.AllReduce(data.view(), ReduceOp::kSum);
    gave_up.fetch_add(1);
    gave_up.notify_all();
    if (!absl::IsDeadlineExceeded(outcome)) return Fail(outcome.ToString());
    if (comm.rank() != late && !NamesAsMissing(outcome, late)) return Fail(outcome.ToString());
    const absl::Status later = comm.Barrier();
    return absl::IsDeadlineExceeded(later) ? absl::OkStatus() : Fail(later.ToString());
  });
}

// The last rank comes when all others have given up. `call` is what they call.
inline absl::Status WithTheLastRankLate(Communicator& comm, std::atomic<int>& gave_up,
                                        const RankBody& call, absl::StatusCode expected) {
  const int late = comm.size() - 1;
  if (late == 0) return absl::OkStatus();
  if (comm.rank() == late) {
    for (int given = 0; given < late; given = gave_up.load()) gave_up.wait(given);
    return absl::OkStatus();
  }
  const absl::Status outcome = call(comm);
  gave_up.fetch_add(1);
  gave_up.notify_all();
  return outcome.code() == expected ? absl::OkStatus() : Fail(outcome.ToString());
}

TEST_P(CommunicatorConformance, ASplitThatARankDoesNotComeToEndsWithItsTime) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  if (!GetParam().split_has_timeout) GTEST_SKIP() << "Split has a limit of the backend's own";
  std::atomic<int> gave_up = 0;
  RunOk([&gave_up](Communicator& comm) {
    comm.set_timeout(std::chrono::milliseconds(50));
    const auto split = [](Communicator& all) { return all.Split(0, 0).status(); };
    return WithTheLastRankLate(comm, gave_up, split, absl::StatusCode::kDeadlineExceeded);
  });
}

// A sum that is begun, and awaited or polled to its end.
inline absl::Status BegunAndAwaited(Communicator& comm, const TensorView& data) {
  return comm.Start({Collective::kAllReduce, data, data})->Wait();
}
inline absl::Status BegunAndPolled(Communicator& comm, const TensorView& data) {
  const auto begun = comm.Start({Collective::kAllReduce, data, data});
  while (!begun->Poll()) std::this_thread::yield();
  return begun->Wait();
}

TEST_P(CommunicatorConformance, WhateverARankDoesNotComeToEndsWithItsTime) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  const std::pair<const char*, RankBody> calls[] = {
      {"begun and awaited",
       [](Communicator& comm) {
         Buffer data(DType::kF32, 70001, comm.rank());
         return BegunAndAwaited(comm, data.view());
       }},
      {"begun and polled",
       [](Communicator& comm) {
         Buffer data(DType::kF32, 70001, comm.rank());
         return BegunAndPolled(comm, data.view());
       }},
      {"barrier", [](Communicator& comm) { return comm.Barrier(); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    std::atomic<int> gave_up = 0;
    RunOk([&](Communicator& comm) {
      comm.set_timeout(std::chrono::milliseconds(50));
      return WithTheLastRankLate(comm, gave_up, call, absl::StatusCode::kDeadlineExceeded);
    });
  }
}

// All ranks that wait have the watch: which of them is asked first does not matter.
TEST_P(CommunicatorConformance, AWatchThatTurnsBadEndsAnyWait) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  const RankBody calls[] = {
      [](Communicator& comm) {
        Buffer data(DType::kF32, 70001, comm.rank());
        return comm.AllReduce(data.view(), ReduceOp::kSum);
      },
      [](Communicator& comm) { return comm.Barrier(); },
      [](Communicator& comm) { return comm.Split(0, 0).status(); },
      [](Communicator& comm) {
        Buffer data(DType::kF32, 5);
        return comm.Recv(data.view(), comm.size() - 1);
      },
  };
  for (const RankBody& call : calls) {
    std::atomic<int> gave_up = 0;
    RunOk([&](Communicator& comm) {
      std::atomic<int> asked = 0;
      comm.set_limits({std::chrono::nanoseconds(0), [&asked] {
                         return ++asked < 3 ? absl::OkStatus()
                                            : absl::FailedPreconditionError("rank 7 stalls");
                       }});
      const auto watched = [&call](Communicator& all) {
        const absl::Status outcome = call(all);
        // A peer whose watch was faster has told this rank.
        const bool told = outcome.message().find("rank 7 stalls") != absl::string_view::npos;
        return told ? absl::FailedPreconditionError("as it should be") : outcome;
      };
      return WithTheLastRankLate(comm, gave_up, watched, absl::StatusCode::kFailedPrecondition);
    });
  }
}

// The other ranks' alarms reach memory that is no more, unless the group has given it up.
inline absl::Status DropAGroup(Communicator& comm) {
  if (comm.size() == 1) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(auto group, comm.Split(0, 0));
  if (comm.rank() == 0) {
    group.reset();
  } else {
    group->set_timeout(std::chrono::milliseconds(50));
    if (group->Barrier().ok()) return Fail("a barrier without rank 0");
  }
  return comm.Barrier();
}

TEST_P(CommunicatorConformance, AGroupThatARankHasDroppedDoesNoHarm) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  RunOk(DropAGroup);
}

// The last rank ends the first call and leaves with the second one begun, which what it has sent
// may be enough for; whoever makes a third learns why that does not come, and the group above goes
// on.
inline absl::Status LeaveAGroup(Communicator& comm) {
  if (comm.size() < 2) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const auto group, comm.Split(0, comm.rank()));
  const int last = comm.size() - 1;
  std::vector<double> sums(3, 1.0);
  const auto start = [&](size_t i) {
    const TensorView view = {&sums[i], DType::kF64, Shape{1}};
    return group->Start({.kind = Collective::kAllReduce, .in = view, .out = view, .agreed = true});
  };
  MILLRACE_RETURN_IF_ERROR(start(0)->Wait());
  if (sums[0] != comm.size()) return Fail("the call before");
  const PeerLost lost = {.rank = last, .step = 7, .bucket = 3, .phase = Phase::kBackward};
  if (comm.rank() == last) {
    const auto second = start(1);
    group->Leave(PeerLostError(lost, "it had enough"));
    if (!absl::IsUnavailable(second->Wait())) return Fail("what was begun goes on");
    if (!absl::IsUnavailable(group->Barrier())) return Fail("the left group is of use");
    return comm.Barrier();
  }
  MILLRACE_RETURN_IF_ERROR(comm.Barrier());
  const auto second = start(1);
  const absl::Status outcome = start(2)->Wait();
  const std::optional<PeerLost> told = PeerLostOf(outcome);
  if (!absl::IsUnavailable(outcome) || !told.has_value()) return Fail(outcome.ToString());
  if (told->rank != last || told->step != 7 || told->bucket != 3) return Fail("who is lost");
  if (told->phase != Phase::kBackward) return Fail("in what phase");
  return absl::IsUnavailable(group->Barrier()) ? absl::OkStatus() : Fail("a later call");
}

TEST_P(CommunicatorConformance, ARankThatLeavesEndsWhatNeedsItInThatGroupAlone) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  if (!GetParam().tells_why_peers_left) GTEST_SKIP() << "the library does not say who is gone";
  RunOk(LeaveAGroup);
}

inline absl::Status HearWhoHasLeft(Communicator& comm) {
  if (comm.size() < 2) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const auto group, comm.Split(0, comm.rank()));
  MILLRACE_ASSIGN_OR_RETURN(const auto below, group->Split(0, comm.rank()));
  if (!group->Heard().ok()) return Fail("nobody has left");
  MILLRACE_RETURN_IF_ERROR(comm.Barrier());
  if (comm.rank() == comm.size() - 1) {
    group->Leave(absl::CancelledError("it had enough"));
  } else {
    while (group->Heard().ok()) std::this_thread::yield();
    if (!absl::IsCancelled(group->Heard())) return Fail(group->Heard().ToString());
  }
  if (!absl::IsCancelled(group->Barrier())) return Fail("the group goes on");
  MILLRACE_RETURN_IF_ERROR(below->Barrier());
  MILLRACE_RETURN_IF_ERROR(comm.Heard());
  return comm.Barrier();
}

TEST_P(CommunicatorConformance, WhoHasLeftIsHeardWithoutACallAndGroupsBelowGoOn) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  RunOk(HearWhoHasLeft);
}

TEST_P(CommunicatorConformance, BadArgumentsOfAnAgreedCallAreNotSilent) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  std::atomic<int> failed = 0;
  RunOk([&failed](Communicator& comm) {
    const bool odd_one = comm.rank() == comm.size() - 1;
    Buffer data(odd_one ? DType::kBytes : DType::kF32, 6);
    Request request{Collective::kAllReduce, data.view(), data.view()};
    request.agreed = true;
    comm.set_timeout(std::chrono::seconds(20));
    const absl::Status outcome = comm.Run(request);
    if (outcome.ok() || absl::IsDeadlineExceeded(outcome)) return Fail(outcome.ToString());
    failed.fetch_add(1);
    failed.notify_all();
    for (int seen = 0; seen < comm.size(); seen = failed.load()) failed.wait(seen);
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, AMessageThatDoesNotComeEndsWithItsTime) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  std::atomic<bool> ended = false;
  RunOk([&ended](Communicator& comm) {
    if (comm.size() == 1) return absl::OkStatus();
    if (comm.rank() == 1) ended.wait(false);
    if (comm.rank() != 0) return absl::OkStatus();
    comm.set_timeout(std::chrono::milliseconds(50));
    Buffer data(DType::kF32, 50000);
    const absl::Status outcome = comm.Recv(data.view(), 1);
    ended.store(true);
    ended.notify_all();
    return absl::IsDeadlineExceeded(outcome) ? absl::OkStatus() : Fail(outcome.ToString());
  });
}

// More than any network takes for a rank that does not receive.
constexpr size_t kLongMessage = size_t{8} << 20;

TEST_P(CommunicatorConformance, AMessageThatNobodyReceivesEndsWithItsTimeAndNamesTheReceiver) {
  if (!GetParam().may_fail) GTEST_SKIP() << "tested by a job of its own";
  if (GetParam().keeps_messages) GTEST_SKIP() << "the network takes messages of any length";
  std::atomic<bool> ended = false;
  RunOk([&ended](Communicator& comm) {
    if (comm.size() == 1) return absl::OkStatus();
    if (comm.rank() == 1) ended.wait(false);
    if (comm.rank() != 0) return absl::OkStatus();
    comm.set_timeout(std::chrono::milliseconds(50));
    Buffer data(DType::kF32, kLongMessage);
    const absl::Status outcome = comm.Send(data.view(), 1);
    ended.store(true);
    ended.notify_all();
    const bool named = absl::StrContains(outcome.message(), "rank 1 does not receive") ||
                       absl::StrContains(outcome.message(), "rank 1 did not come");
    return absl::IsDeadlineExceeded(outcome) && named ? absl::OkStatus() : Fail(outcome.ToString());
  });
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_GROUP_CONFORMANCE_H_
