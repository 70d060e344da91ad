// What the NCCL communicator promises beyond the conformance suite, over a fake libnccl.
#include "collectives/nccl_communicator.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/half.h"
#include "collectives/agreed.h"
#include "collectives/nccl/session.h"
#include "gmock/gmock.h"
#include "tests/collectives/nccl/nccl_fixture.h"
#include "tests/collectives/tcp/tcp_ranks.h"
#include "tests/collectives/test_buffer.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kSoon(100);

std::string Text(const absl::Status& status) { return std::string(ToStd(status.message())); }

class NcclTest : public testing::Test {
 protected:
  void SetUp() override {
    control_.polls = 2;
    control_.init_hangs = false;
    control_.init_fails_on = -1;
    control_.fails_on = -1;
    control_.failure = nccl::Result::kSystemError;
    control_.peers_notice = true;
    control_.aborted = control_.destroyed = control_.misuses = 0;
  }
  void TearDown() override {
    EXPECT_EQ(control_.live, 0) << "communicators that nobody ended";
    EXPECT_EQ(control_.misuses, 0);
    EXPECT_EQ(control_.made_ops, 0);
    EXPECT_EQ(control_.allocations, 0);
    EXPECT_EQ(control_.registrations, 0);
  }
  // `body` on every rank; returns each rank's status.
  std::vector<absl::Status> Outcomes(int size, const NcclBody& body, NcclOptions options = {}) {
    if (options.library.empty()) options.library = FAKE_NCCL;
    std::vector<absl::Status> outcomes(size);
    const absl::Status run = RunRanks(size, [&](Communicator& bootstrap) {
      auto comm = nccl::MakeNcclOn(bootstrap, options, MakeHostQueue);
      outcomes[bootstrap.rank()] = comm.ok() ? body(**comm) : comm.status();
      return absl::OkStatus();
    });
    EXPECT_TRUE(run.ok()) << run;
    return outcomes;
  }
  void ExpectOk(int size, const NcclBody& body, NcclOptions options = {}) {
    for (const absl::Status& outcome : Outcomes(size, body, options)) {
      EXPECT_TRUE(outcome.ok()) << outcome;
    }
  }

  FakeNcclControl& control_ = ControlOf(FAKE_NCCL);
};

Request AgreedSum(TensorView data) {
  return {Collective::kAllReduce, data, data, ReduceOp::kSum, 0, true};
}

absl::Status Sum(Communicator& comm) {
  Buffer data(DType::kF32, 100, comm.rank());
  return comm.Run(AgreedSum(data.view()));
}

TEST_F(NcclTest, APeacefulEndDestroysAndAbortsNothing) {
  ExpectOk(3, [](NcclCommunicator& comm) { return Sum(comm); });
  EXPECT_EQ(control_.destroyed, 3);
  EXPECT_EQ(control_.aborted, 0);
}

TEST_F(NcclTest, TellsBackendAndVersion) {
  ExpectOk(2, [](NcclCommunicator& comm) {
    const bool good = comm.backend() == "nccl" && comm.version() == 22809;
    return good ? absl::OkStatus() : Fail("backend or version");
  });
}

TEST_F(NcclTest, ABegunCallEndsWhenTheDeviceIsDone) {
  control_.Hold();
  std::atomic<int> begun = 0;
  std::jthread device([&] {  // lets go once all ranks have polled
    for (int b = 0; (b = begun.load()) < 2;) begun.wait(b);
    control_.Release();
  });
  ExpectOk(2, [&](NcclCommunicator& comm) {
    Buffer data(DType::kF32, 5, comm.rank());
    const auto pending = comm.Start(AgreedSum(data.view()));
    const bool early = pending->Poll();
    begun.fetch_add(1);
    begun.notify_all();
    MILLRACE_RETURN_IF_ERROR(pending->Wait());
    if (early) return Fail("ended before the device was done");
    if (!pending->Poll() || !pending->Wait().ok()) return Fail("an outcome that changes");
    return data.Get(4) == Expected(ReduceOp::kSum, 2, 4) ? absl::OkStatus() : Fail("sum");
  });
}

TEST_F(NcclTest, ScaledSumsMultiplyEachRanksInput) {
  ExpectOk(3, [](NcclCommunicator& comm) {
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      double in = 8, out = 0;
      if (dtype == DType::kF32) *reinterpret_cast<float*>(&in) = 8;
      if (dtype == DType::kF16) *reinterpret_cast<Half*>(&in) = ToHalf(8);
      if (dtype == DType::kBF16) *reinterpret_cast<BFloat*>(&in) = ToBFloat(8);
      Request request{
          Collective::kAllReduce, TensorView{&in, dtype, Shape{1}}, {&out, dtype, Shape{1}}};
      MILLRACE_RETURN_IF_ERROR(comm.StartScaled(request, 0.25 * (comm.rank() + 1))->Wait());
      double sum = out;
      if (dtype == DType::kF32) sum = *reinterpret_cast<float*>(&out);
      if (dtype == DType::kF16) sum = ToFloat(*reinterpret_cast<Half*>(&out));
      if (dtype == DType::kBF16) sum = ToFloat(*reinterpret_cast<BFloat*>(&out));
      if (sum != 8 * 0.25 * (1 + 2 + 3)) return Fail(absl::StrCat("sum ", sum));
    }
    return absl::OkStatus();
  });
}

TEST_F(NcclTest, OnlySumsOfFloatingPointNumbersAreScaled) {
  ExpectOk(2, [](NcclCommunicator& comm) {
    Buffer whole(DType::kI32, 2), data(DType::kF32, 2);
    Request request{Collective::kAllReduce, whole.view(), whole.view()};
    const absl::Status integers = comm.StartScaled(request, 0.5)->Wait();
    request = {Collective::kAllReduce, data.view(), data.view(), ReduceOp::kMax};
    const absl::Status maximum = comm.StartScaled(request, 0.5)->Wait();
    const bool good = absl::IsInvalidArgument(integers) && absl::IsInvalidArgument(maximum);
    return good ? comm.Barrier() : Fail("taken");
  });
}

TEST_F(NcclTest, AllocatedMemoryIsRegisteredAndGivenBack) {
  ExpectOk(2, [&](NcclCommunicator& comm) {
    MILLRACE_ASSIGN_OR_RETURN(void* const memory, comm.Allocate(400));
    std::vector<float> own(10);
    MILLRACE_RETURN_IF_ERROR(comm.Register(own.data(), 40));
    MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    if (control_.registrations != 4 || control_.allocations != 2) return Fail("not registered");
    std::fill_n(static_cast<float*>(memory), 100, 1.0f);
    MILLRACE_RETURN_IF_ERROR(comm.AllReduce({memory, DType::kF32, Shape{100}}, ReduceOp::kSum));
    return static_cast<float*>(memory)[99] == 2 ? absl::OkStatus() : Fail("sum");
  });
}

TEST_F(NcclTest, AnOlderLibraryRegistersNothing) {
  ExpectOk(2,
           [](NcclCommunicator& comm) {
             float data = 0;
             const bool refused = absl::IsUnimplemented(comm.Allocate(64).status()) &&
                                  absl::IsUnimplemented(comm.Register(&data, 4));
             return refused ? Sum(comm) : Fail("taken");
           },
           {.library = FAKE_NCCL_BARE});
}

TEST_F(NcclTest, UnlikeCallsAreInvalidOnAllRanksAndHarmless) {
  std::vector<absl::Status> seen(3);
  ExpectOk(3, [&](NcclCommunicator& comm) {
    Buffer data(DType::kF32, comm.rank() == 1 ? 5 : 6);
    seen[comm.rank()] = comm.AllReduce(data.view(), ReduceOp::kSum);
    return comm.Barrier();
  });
  for (const absl::Status& status : seen) {
    EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument, "every-rank");
  }
}

TEST_F(NcclTest, ABadArgumentOfOneRankIsNamedOnAllAndHarmless) {
  std::vector<absl::Status> seen(3);
  ExpectOk(3, [&](NcclCommunicator& comm) {
    Buffer data(DType::kF32, 6);
    seen[comm.rank()] = comm.Broadcast(data.view(), comm.rank() == 2 ? 7 : 1);
    return comm.Barrier();
  });
  for (const absl::Status& status : seen) {
    EXPECT_MESSAGE(status, absl::StatusCode::kInvalidArgument, "every-rank");
  }
}

TEST_F(NcclTest, AMessageOfAnotherSizeIsInvalidOnBothSides) {
  ExpectOk(2, [](NcclCommunicator& comm) {
    Buffer data(DType::kF32, comm.rank() == 0 ? 4 : 5);
    const absl::Status status =
        comm.rank() == 0 ? comm.Send(data.view(), 1) : comm.Recv(data.view(), 0);
    return absl::IsInvalidArgument(status) ? comm.Barrier() : Fail(status.ToString());
  });
}

// Without the comparison NCCL hangs: the deadline is what remains.
TEST_F(NcclTest, UnlikeAgreedCallsEndByTheDeadlineAndAbort) {
  const auto outcomes = Outcomes(2, [](NcclCommunicator& comm) {
    comm.set_timeout(kSoon);
    Buffer data(DType::kF32, comm.rank() == 1 ? 5 : 6);
    return comm.Run(AgreedSum(data.view()));
  });
  for (const absl::Status& outcome : outcomes) {
    // The first to give up is UNAVAILABLE to the other.
    EXPECT_TRUE(absl::IsDeadlineExceeded(outcome) || absl::IsUnavailable(outcome)) << outcome;
  }
  EXPECT_EQ(control_.aborted, 2);
}

TEST_F(NcclTest, AFailureOfOneRankIsUnavailableOnEveryRank) {
  control_.fails_on = 1;
  const auto outcomes = Outcomes(4, [](NcclCommunicator& comm) {
    comm.set_timeout(std::chrono::minutes(1));
    return Sum(comm);
  });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_MESSAGE(outcomes[rank], absl::StatusCode::kUnavailable, rank == 1 ? "own" : "peers");
  }
  EXPECT_EQ(control_.aborted, 4);
}

TEST_F(NcclTest, PeersThatHearNothingOfAFailureEndByTheDeadline) {
  control_.fails_on = 0;
  control_.peers_notice = false;
  const auto outcomes = Outcomes(3, [](NcclCommunicator& comm) {
    comm.set_timeout(kSoon);
    return Sum(comm);
  });
  EXPECT_TRUE(absl::IsUnavailable(outcomes[0])) << outcomes[0];
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcomes[1])) << outcomes[1];
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcomes[2])) << outcomes[2];
  EXPECT_EQ(control_.aborted, 3);
}

TEST_F(NcclTest, AfterAFailureEveryCallReturnsIt) {
  control_.fails_on = 0;
  const auto outcomes = Outcomes(2, [](NcclCommunicator& comm) {
    const absl::Status first = Sum(comm);
    if (Sum(comm) != first || comm.Barrier() != first) return Fail("another status");
    return absl::IsUnavailable(first) ? absl::OkStatus() : Fail(first.ToString());
  });
  for (const absl::Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome;
}

// A peer that has not failed is not asked, and one that waits in a comparison is told.
TEST_F(NcclTest, AfterAFailureNoCallWaitsForAPeer) {
  control_.fails_on = 0;
  control_.peers_notice = false;
  std::atomic<bool> tried = false;
  const auto outcomes = Outcomes(2, [&](NcclCommunicator& comm) {
    Buffer data(DType::kF32, 100);
    if (comm.rank() == 1) {
      while (!tried) std::this_thread::yield();
      return comm.AllReduce(data.view(), ReduceOp::kSum);
    }
    const absl::Status first = Sum(comm);
    comm.set_timeout(kSoon);  // of a call that waits all the same
    const absl::Status call = comm.AllReduce(data.view(), ReduceOp::kSum);
    const absl::Status barrier = comm.Barrier();
    const absl::Status split = comm.Split(0, 0).status();
    tried = true;
    return call == first && barrier == first && split == first ? first : Fail("another status");
  });
  EXPECT_MESSAGE(outcomes[0], absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::IsUnavailable(outcomes[1])) << outcomes[1];
  EXPECT_THAT(Text(outcomes[1]), HasSubstr(Text(outcomes[0])));
}

TEST_F(NcclTest, AnOwnFaultOfTheDeviceIsInternal) {
  control_.fails_on = 0;
  control_.failure = nccl::Result::kUnhandledCudaError;
  const auto outcomes = Outcomes(2, [](NcclCommunicator& comm) { return Sum(comm); });
  EXPECT_TRUE(absl::IsInternal(outcomes[0])) << outcomes[0];
  EXPECT_TRUE(absl::IsUnavailable(outcomes[1])) << outcomes[1];
}

// A device that is lost is waited for once, not for each call.
TEST_F(NcclTest, AFailureWaitsOnceForTheDevice) {
  struct LostQueue : HostQueue {
    explicit LostQueue(int& counter) : asked(counter) {}
    absl::StatusOr<bool> Query(void*) override {
      ++asked;
      return false;
    }
    int& asked;
  };
  int asked = 0;
  const auto api = nccl::LoadApi(FAKE_NCCL);
  ASSERT_TRUE(api.ok()) << api.status();
  nccl::Session session(*api, std::make_unique<LostQueue>(asked), milliseconds(10));
  nccl::UniqueId id;
  ASSERT_EQ((*api)->get_unique_id(&id), nccl::Result::kSuccess);
  const nccl::Deadline deadline{std::chrono::minutes(1)};
  ASSERT_TRUE(session.Connect(0, 1, id, nccl::MakeConfig({}), deadline).ok());
  const absl::Status failure = session.Abort(absl::UnavailableError("rank 1 is stopped"));
  for (const bool first : {true, false}) {
    const auto event = session.Record();
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(session.Wait("AllReduce", *event, deadline), failure);
    EXPECT_EQ(asked > 0, first);
    asked = 0;
    session.Release(*event);
  }
}

TEST_F(NcclTest, AnAbortFromAnotherThreadWakesAWaitingRank) {
  const auto outcomes = Outcomes(2, [](NcclCommunicator& comm) {
    if (comm.rank() == 1) return absl::OkStatus();  // never comes
    std::jthread watchdog([&comm] { comm.Abort(absl::UnavailableError("rank 1 is stopped")); });
    return Sum(comm);
  });
  EXPECT_MESSAGE(outcomes[0], absl::StatusCode::kCancelled);
}

// Groups over messages are one thread's: the one that waits ends them.
TEST_F(NcclTest, AnAbortFromAnotherThreadEndsAComparisonOverMessages) {
  std::atomic<bool> waits = false;
  std::atomic<bool> ended = false;
  std::vector<absl::Status> outcomes(2);
  const absl::Status run = RunTcpRanks(2, [&](Communicator& bootstrap) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto comm,
                              nccl::MakeNcclOn(bootstrap, {.library = FAKE_NCCL}, MakeHostQueue));
    Buffer data(DType::kF32, 100);
    std::jthread watchdog;
    if (comm->rank() == 0) {
      comm->set_limits({.watch = [&waits] {
        waits = true;
        return absl::OkStatus();
      }});
      watchdog = std::jthread([&waits, &comm] {
        while (!waits) std::this_thread::yield();
        comm->Abort(absl::UnavailableError("rank 1 is stopped"));
      });
    } else {
      while (!ended) std::this_thread::yield();
    }
    outcomes[comm->rank()] = comm->AllReduce(data.view(), ReduceOp::kSum);
    ended = true;
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
  EXPECT_MESSAGE(outcomes[0], absl::StatusCode::kCancelled);
  // What rank 0 had said before may have let it into NCCL.
  EXPECT_TRUE(absl::IsCancelled(outcomes[1]) || absl::IsUnavailable(outcomes[1])) << outcomes[1];
}

TEST_F(NcclTest, TheWatchEndsAWaitWithoutATimeout) {
  const auto outcomes = Outcomes(2, [](NcclCommunicator& comm) {
    if (comm.rank() == 1) return absl::OkStatus();  // never comes
    comm.set_limits({.watch = [] { return absl::UnavailableError("rank 1 was killed"); }});
    const absl::Status status = Sum(comm);
    return Sum(comm) == status ? status : Fail("another status");
  });
  EXPECT_MESSAGE(outcomes[0], absl::StatusCode::kUnavailable);
}

TEST_F(NcclTest, TheWatchEndsAWaitForNccl) {
  control_.init_hangs = true;
  std::atomic<bool> lost = false;
  std::vector<absl::Status> outcomes(2);
  const absl::Status run = RunRanks(2, [&](Communicator& bootstrap) {
    bootstrap.set_limits({.watch = [&] {
      if (control_.live == 2) lost = true;  // both ranks connect
      return lost ? absl::UnavailableError("rank 1 was killed") : absl::OkStatus();
    }});
    outcomes[bootstrap.rank()] =
        nccl::MakeNcclOn(bootstrap, {.library = FAKE_NCCL}, MakeHostQueue).status();
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
  for (const absl::Status& outcome : outcomes) {
    EXPECT_THAT(Text(outcome), HasSubstr("rank 1 was killed"));
  }
  EXPECT_EQ(control_.aborted, 2);
}

TEST(NcclDeadline, ATimeoutBeyondTheClocksEndIsNever) {
  EXPECT_FALSE(nccl::Deadline(std::chrono::nanoseconds::max()).has_passed());
  EXPECT_FALSE(nccl::Deadline(std::chrono::nanoseconds(0)).has_passed());
  EXPECT_TRUE(nccl::Deadline(std::chrono::nanoseconds(1)).has_passed());
}

TEST_F(NcclTest, ConnectingThatNeverEndsIsDeadlineExceededOnEveryRank) {
  control_.init_hangs = true;
  const auto outcomes =
      Outcomes(3, [](NcclCommunicator&) { return absl::OkStatus(); }, {.connect_timeout = kSoon});
  for (const absl::Status& outcome : outcomes) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(outcome)) << outcome;
    EXPECT_THAT(Text(outcome), HasSubstr("ncclCommInitRankConfig: not done after 0.1 s"));
    EXPECT_TRUE(IsAgreed(outcome));
  }
  EXPECT_EQ(control_.aborted, 3);
}

TEST_F(NcclTest, ARankThatFailsToConnectFailsAllRanks) {
  control_.init_fails_on = 2;
  const auto outcomes =
      Outcomes(3, [](NcclCommunicator&) { return absl::OkStatus(); }, {.connect_timeout = kSoon});
  for (const absl::Status& outcome : outcomes) EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(control_.aborted, 3);
}

TEST_F(NcclTest, ARankWithoutTheLibraryIsNamedOnEveryRank) {
  const absl::Status run = RunRanks(3, [](Communicator& bootstrap) {
    const std::string library = bootstrap.rank() == 1 ? "/no/such/libnccl.so" : FAKE_NCCL;
    const auto comm = nccl::MakeNcclOn(bootstrap, {.library = library}, MakeHostQueue);
    EXPECT_MESSAGE(comm.status(), absl::StatusCode::kFailedPrecondition, "every-rank");
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
}

TEST_F(NcclTest, DifferentVersionsAreRefusedOnEveryRank) {
  messages::HideInMessages(FAKE_NCCL, "library");
  messages::HideInMessages(FAKE_NCCL_BARE, "older");
  const absl::Status run = RunRanks(2, [](Communicator& bootstrap) {
    const std::string library = bootstrap.rank() == 1 ? FAKE_NCCL_BARE : FAKE_NCCL;
    const auto comm = nccl::MakeNcclOn(bootstrap, {.library = library}, MakeHostQueue);
    EXPECT_MESSAGE(comm.status(), absl::StatusCode::kFailedPrecondition, "every-rank");
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
}

TEST_F(NcclTest, ADeviceThatIsNotThereIsNamedOnEveryRank) {
  const absl::Status run = RunRanks(2, [](Communicator& bootstrap) {
    const auto comm =
        nccl::MakeNcclOn(bootstrap, {.library = FAKE_NCCL},
                         [&bootstrap]() -> absl::StatusOr<std::unique_ptr<DeviceQueue>> {
                           if (bootstrap.rank() == 0) return MakeHostQueue();
                           return absl::FailedPreconditionError("no CUDA device: none present");
                         });
    EXPECT_MESSAGE(comm.status(), absl::StatusCode::kFailedPrecondition, "every-rank");
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
}

// With time enough to connect first on a loaded machine.
TEST_F(NcclTest, ASplitThatARankDoesNotComeToEndsWithItsTimeToConnect) {
  std::atomic<int> gave_up = 0;
  const auto outcomes = Outcomes(3,
                                 [&gave_up](NcclCommunicator& comm) {
                                   if (comm.rank() == 2) {
                                     for (int given = 0; given < 2; given = gave_up.load())
                                       gave_up.wait(given);
                                     return absl::OkStatus();
                                   }
                                   const absl::Status outcome = comm.Split(0, 0).status();
                                   gave_up.fetch_add(1);
                                   gave_up.notify_all();
                                   return outcome;
                                 },
                                 {.connect_timeout = std::chrono::seconds(1)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcomes[0])) << outcomes[0];
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcomes[1])) << outcomes[1];
}

TEST_F(NcclTest, AGroupOutlivesTheOneItWasSplitFrom) {
  ExpectOk(4, [](NcclCommunicator& comm) {
    MILLRACE_ASSIGN_OR_RETURN(const auto half, comm.Split(comm.rank() % 2, 0));
    if (half->backend() != "nccl" || half->size() != 2) return Fail("not a half");
    return Sum(*half);
  });
  EXPECT_EQ(control_.destroyed, 8);
}

// Also those of the group that a team's reducer splits off.
TEST_F(NcclTest, BoundsOfThreadBlocksReachTheLibrary) {
  const auto are_bounds = [this](int min, int max) {
    return control_.min_ctas.exchange(0) == min && control_.max_ctas.exchange(0) == max;
  };
  const auto body = [&are_bounds](NcclCommunicator& comm) -> absl::Status {
    if (!are_bounds(2, 7)) return Fail("of the group");
    MILLRACE_RETURN_IF_ERROR(comm.Split(0, 0).status());
    return are_bounds(2, 7) ? absl::OkStatus() : Fail("of its part");
  };
  ExpectOk(1, body, {.min_ctas = 2, .max_ctas = 7});
  ExpectOk(1, [](NcclCommunicator&) { return absl::OkStatus(); });
  EXPECT_TRUE(are_bounds(nccl::kUndefinedInt, nccl::kUndefinedInt));
}

TEST(NcclOptionsTest, BadFieldsAreNamed) {
  const auto error = [](const NcclOptions& options) { return options.Validate(); };
  EXPECT_TRUE(NcclOptions().Validate().ok());
  EXPECT_MESSAGE(error({.device = -2}), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error({.connect_timeout = milliseconds(0)}), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error({.min_ctas = -1}), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error({.min_ctas = 8, .max_ctas = 4}), absl::StatusCode::kInvalidArgument);
}

TEST(MakeNccl, SaysOnEveryRankWhatIsMissing) {
  const absl::Status run = RunRanks(2, [](Communicator& bootstrap) {
    const auto comm = MakeNccl(bootstrap, {.library = "/no/such/libnccl.so"});
    // Without CUDA, without a device, or without the library.
    const bool refused = absl::IsUnimplemented(comm.status()) ||
                         absl::IsFailedPrecondition(comm.status()) ||
                         absl::IsInvalidArgument(comm.status());
    return refused ? bootstrap.Barrier() : Fail(comm.status().ToString());
  });
  EXPECT_TRUE(run.ok()) << run;
}

// Nobody waits: who polls has the watch all the same.
TEST(NcclCommunicator, AWatchThatTurnsBadEndsWhatIsPolled) {
  std::atomic<bool> ended = false;
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) -> absl::Status {
        if (comm.rank() == 1) {
          while (!ended) std::this_thread::yield();
          return absl::OkStatus();
        }
        std::atomic<int> asked = 0;
        comm.set_limits({std::chrono::nanoseconds(0), [&asked] {
                           return ++asked < 3 ? absl::OkStatus()
                                              : absl::FailedPreconditionError("rank 1 stalls");
                         }});
        float value = 1;
        const TensorView view = {&value, DType::kF32, Shape{1}};
        const auto sum =
            comm.Start({.kind = Collective::kAllReduce, .in = view, .out = view, .agreed = true});
        while (!sum->Poll()) std::this_thread::yield();
        ended = true;
        const absl::Status outcome = sum->Wait();
        return absl::IsFailedPrecondition(outcome) ? absl::OkStatus() : outcome;
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::collectives
