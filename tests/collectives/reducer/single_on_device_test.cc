// The reducer of a rank that is alone on its device, here the host.
#include "collectives/core/single_on_device.h"

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/agreed.h"
#include "gmock/gmock.h"
#include "tests/collectives/cuda/host_queue.h"
#include "tests/collectives/reducer/counted_steps.h"
#include "tests/collectives/reducer/reducer_options.h"
#include "tests/collectives/reducer/reducer_steps.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

std::unique_ptr<DeviceCommunicator> MakeOnHost(void* gradient_stream = nullptr) {
  return MakeSingleOn(std::make_unique<HostQueue>(), MakeSingle(), gradient_stream);
}

// With sums begun by MarkReady and by Finish.
void ExpectWithBothPolicies(
    const std::function<absl::Status(DeviceCommunicator&, const ReducerOptions&)>& check) {
  for (const ProgressPolicy policy : {ProgressPolicy::kStream, ProgressPolicy::kInline}) {
    const auto comm = MakeOnHost();
    ReducerOptions options;
    options.policy = policy;
    const absl::Status status = check(*comm, options);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(SingleOnDevice, OptionsHold) {
  ExpectWithBothPolicies([](DeviceCommunicator& comm, const ReducerOptions& options) {
    MILLRACE_RETURN_IF_ERROR(CheckAllOptions(comm, options, MakeOwned));
    return CheckAllOptions(comm, options, MakeInUserBuffers());
  });
}

TEST(SingleOnDevice, StepsAreCounted) {
  ExpectWithBothPolicies([](DeviceCommunicator& comm, const ReducerOptions& options) {
    return CheckCounters(comm, options);
  });
}

TEST(SingleOnDevice, LateSumsComeInTheirSteps) {
  ExpectWithBothPolicies([](DeviceCommunicator& comm, const ReducerOptions& options) {
    return CheckLateSums(comm, options);
  });
}

TEST(SingleOnDevice, ATeamIsFinishedInAnyOrder) {
  ExpectWithBothPolicies([](DeviceCommunicator& comm, ReducerOptions options) {
    ReducerTeam team;
    options = SmallBuckets(options);
    options.team = &team;
    return FinishTwoInUnlikeOrders(comm, options, options.policy);
  });
}

TEST(SingleOnDevice, TheSummaryNamesNoOtherRank) {
  const auto comm = MakeOnHost();
  const auto reducer = GradientReducer::Make(*comm, SomeGradients());
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  EXPECT_THAT((*reducer)->Summary(),
              testing::AllOf(testing::HasSubstr("reduced on the device's stream"),
                             testing::Not(testing::HasSubstr("ranks"))));
}

// Keeps a stream busy from its construction to Release.
class Gate {
 public:
  explicit Gate(HostStream& stream) : stream_(stream) {
    stream_.Enqueue([this] { open_.wait(false); });
  }
  ~Gate() { Release(); }
  void Release() {
    open_ = true;
    open_.notify_all();
    stream_.Wait();
  }

 private:
  HostStream& stream_;
  std::atomic<bool> open_ = false;
};

TEST(SingleOnDevice, ACallEndsBehindTheWorkOfItsQueue) {
  const auto comm = MakeOnHost();
  Gate gate(*static_cast<HostStream*>(comm->queue().stream()));
  float values[2] = {3, 0};
  const TensorView in = {&values[0], DType::kF32, Shape{1}};
  const TensorView out = {&values[1], DType::kF32, Shape{1}};
  const auto in_place = comm->Start({Collective::kAllReduce, in, in});
  const auto copied = comm->Start({Collective::kAllReduce, in, out});
  EXPECT_FALSE(in_place->Poll());
  EXPECT_FALSE(copied->Poll());
  gate.Release();
  EXPECT_TRUE(copied->Wait().ok());
  EXPECT_TRUE(in_place->Poll());
  EXPECT_THAT(values, testing::ElementsAre(3, 3));
}

TEST(SingleOnDevice, AfterAnAbortNoCallIsMade) {
  const auto comm = MakeOnHost();
  comm->Abort(absl::UnavailableError("the disk is full"));
  EXPECT_MESSAGE(comm->Barrier(), absl::StatusCode::kCancelled);
}

// The stream of the gradients is held, so that nothing that waits for it returns.
TEST(SingleOnDevice, SumsThatTheirStreamUsesAreNotAwaited) {
  HostStream stream;
  const auto comm = MakeOnHost(&stream);
  ReducerOptions options = SmallBuckets();
  options.average_by_rows = true;
  options.uses_sums_on_stream = true;
  const auto made = GradientReducer::Make(*comm, SomeGradients(), options);
  ASSERT_TRUE(made.ok()) << made.status();
  GradientReducer& reducer = **made;
  float* const gradient = reducer.gradient(0).as<float>().data();
  std::vector<float> sums;
  for (int step = 1; step <= 3; ++step) {
    Gate gate(stream);
    stream.Enqueue([=] { *gradient = static_cast<float>(8 * step); });
    reducer.SetRows(4);
    EXPECT_TRUE(MarkAll(reducer, SomeGradients().size()).ok());
    const absl::Status finished = reducer.Finish();
    EXPECT_TRUE(finished.ok()) << finished;
    EXPECT_EQ(reducer.outcome().rows, 4);
    stream.Enqueue([&sums, gradient] { sums.push_back(*gradient); });
    gate.Release();
  }
  EXPECT_THAT(sums, testing::ElementsAre(2, 4, 6));
}

class FullQueue final : public HostQueue {
 public:
  absl::StatusOr<void*> Allocate(size_t) override {
    return absl::ResourceExhaustedError("cudaMallocAsync: out of memory");
  }
};

TEST(SingleOnDevice, MissingMemoryIsSaid) {
  const auto comm = MakeSingleOn(std::make_unique<FullQueue>(), MakeSingle(), nullptr);
  const absl::Status status = GradientReducer::Make(*comm, SomeGradients()).status();
  EXPECT_TRUE(IsAgreed(status)) << status;
  EXPECT_MESSAGE(status, absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace millrace::collectives
