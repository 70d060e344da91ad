// Gradients in a device's memory: the reducer over NCCL, here a fake one whose device is the host.
#include <atomic>
#include <map>
#include <thread>

#include "collectives/peer_lost.h"
#include "gmock/gmock.h"
#include "tests/collectives/nccl_fixture.h"
#include "tests/collectives/reducer_steps.h"

namespace millrace::collectives {
namespace {

using ::testing::HasSubstr;

absl::Status MarkAll(GradientReducer& reducer, size_t count) {
  for (size_t g = 0; g < count; ++g) MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  return absl::OkStatus();
}

// `body` with the stream of the rank's communicator.
absl::Status RunWithStream(
    int size, const std::function<absl::Status(NcclCommunicator&, HostStream&)>& body) {
  return RunRanks(size, [&](Communicator& bootstrap) -> absl::Status {
    HostStream* stream = nullptr;
    const auto make_queue = [&stream]() -> absl::StatusOr<std::unique_ptr<DeviceQueue>> {
      auto queue = std::make_unique<HostQueue>();
      stream = static_cast<HostStream*>(queue->stream());
      return queue;
    };
    MILLRACE_ASSIGN_OR_RETURN(const auto comm,
                              nccl::MakeNcclOn(bootstrap, {.library = FAKE_NCCL}, make_queue));
    return body(*comm, *stream);
  });
}

TEST(StreamReducer, IsChosenOverNcclAndSaysSo) {
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [](NcclCommunicator& comm) -> absl::Status {
        for (const auto& [policy, expected] : std::map<ProgressPolicy, std::string>{
                 {ProgressPolicy::kAuto,
                  "reduced on the device's stream (gradients are in a device's memory)"},
                 {ProgressPolicy::kStream, "reduced on the device's stream (as asked for)"},
                 {ProgressPolicy::kInline, "reduced inline (as asked for)"}}) {
          ReducerOptions options = SmallBuckets();
          options.policy = policy;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    GradientReducer::Make(comm, SomeGradients(), options));
          if (reducer->Summary().find(expected) == std::string::npos)
            return Fail(reducer->Summary());
          const std::vector<size_t> order = {3, 0, 7, 1, 2, 6, 5, 4};
          for (int step = 0; step < 3; ++step) {
            MILLRACE_RETURN_IF_ERROR(StepInOrder(comm, *reducer, order, step));
          }
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// The device is held, so that nothing that waits for it returns.
TEST(StreamReducer, MarkReadyPutsFullBucketsOnTheStreamAndDoesNotWait) {
  FakeNcclControl& control = ControlOf(FAKE_NCCL);
  for (const bool stream_policy : {true, false}) {
    std::atomic<int> marked = 0;
    control.Hold();
    const absl::Status status =
        RunWithStream(2, [&](NcclCommunicator& comm, HostStream& stream) -> absl::Status {
          ReducerOptions options = SmallBuckets();
          options.policy = stream_policy ? ProgressPolicy::kAuto : ProgressPolicy::kInline;
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    GradientReducer::Make(comm, SomeGradients(), options));
          const uint64_t before = stream.issued();
          MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
          const uint64_t after = stream.issued();
          if (++marked == 2) control.Release();
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
          const uint64_t expected = stream_policy ? reducer->num_buckets() : 0;
          return after - before == expected ? absl::OkStatus()
                                            : Fail(absl::StrCat(after - before, " begun"));
        });
    control.Release();
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(StreamReducer, TakesTheCallersDeviceMemoryAlsoFromAnOldLibrary) {
  const std::vector<GradientSpec> gradients = {{"a", {700}}, {"b", {0}}, {"c", {33}}};
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL_BARE}, [&](NcclCommunicator& comm) -> absl::Status {
        const absl::Status none = GradientReducer::Make(comm, gradients).status();
        if (!absl::IsUnimplemented(none) ||
            ToStd(none.message()).find("allocates no memory") == std::string_view::npos) {
          return Fail(none.ToString());
        }
        ForeignGradients memory(gradients);
        MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                  GradientReducer::Make(comm, gradients, memory.views()));
        return StepInOrder(comm, *reducer, {2, 0, 1}, 0);
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StreamReducer, OptionsThatADeviceDoesNotHaveAreNamed) {
  const std::pair<std::string, std::function<void(ReducerOptions&)>> changes[] = {
      {"exact", [](ReducerOptions& options) { options.exact = true; }},
      {"average_by_rows", [](ReducerOptions& options) { options.average_by_rows = true; }},
      {"skip_non_finite", [](ReducerOptions& options) { options.skip_non_finite = true; }},
      {"clip_norm", [](ReducerOptions& options) { options.clip_norm = 1; }},
      {"shard", [](ReducerOptions& options) { options.shard = true; }},
      {"micro_batches", [](ReducerOptions& options) { options.micro_batches = 2; }},
      {"wire", [](ReducerOptions& options) { options.wire = DType::kBF16; }},
      {"policy thread", [](ReducerOptions& options) { options.policy = ProgressPolicy::kThread; }},
  };
  for (const auto& [name, change] : changes) {
    ReducerOptions options;
    change(options);
    const absl::Status status =
        RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) {
          return GradientReducer::Make(comm, SomeGradients(), options).status();
        });
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr("option " + name));
  }
}

TEST(StreamReducer, AStreamWithoutADeviceIsInvalid) {
  ReducerOptions options;
  options.policy = ProgressPolicy::kStream;
  const absl::Status status = RunRanks(2, [&](Communicator& comm) {
    return GradientReducer::Make(comm, SomeGradients(), options).status();
  });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr("this one is over threads"));
}

// It is in the middle of a step: its peer's sum cannot end, and the peer learns who it waited for.
// Also where NCCL does not notice, as over NVLink.
void ExpectThatALeaverEndsThePeersWait() {
  std::atomic<bool> told = false;
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [&](NcclCommunicator& comm) -> absl::Status {
        MILLRACE_ASSIGN_OR_RETURN(auto reducer,
                                  GradientReducer::Make(comm, SomeGradients(), SmallBuckets()));
        if (comm.rank() == 1) {
          MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
          reducer.reset();
          while (!told) std::this_thread::yield();
          return absl::OkStatus();
        }
        absl::Status outcome = MarkAll(*reducer, SomeGradients().size());
        if (outcome.ok()) outcome = reducer->Finish();
        const absl::Status later = reducer->MarkReady(0);
        told = true;
        const std::optional<PeerLost> lost = PeerLostOf(outcome);
        if (!absl::IsUnavailable(outcome) || !lost.has_value()) return Fail(outcome.ToString());
        if (lost->rank != 1 || lost->phase != Phase::kBackward) return Fail(outcome.ToString());
        return later == outcome ? absl::OkStatus() : Fail(later.ToString());
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StreamReducer, ARankThatLeavesEndsThePeersWait) {
  FakeNcclControl& control = ControlOf(FAKE_NCCL);
  for (const bool notice : {true, false}) {
    control.peers_notice = notice;
    ExpectThatALeaverEndsThePeersWait();
  }
  control.peers_notice = true;
}

TEST(StreamReducer, TheEndOfAReducerLeavesTheCommunicator) {
  const absl::Status status =
      RunOverFakeNccl(2, {.library = FAKE_NCCL}, [](NcclCommunicator& comm) -> absl::Status {
        for (int turn = 0; turn < 3; ++turn) {
          MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                                    GradientReducer::Make(comm, SomeGradients(), SmallBuckets()));
          MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
          MILLRACE_RETURN_IF_ERROR(reducer->Finish());
        }
        return comm.Barrier();
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::collectives
