// The conformance suites over MPI; started by mpirun, every rank runs every test. A rank whose test
// fails says so and takes the job down, for its peers would wait for ever.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/agreed.h"
#include "collectives/factory.h"
#include "collectives/mpi/connect_mpi.h"
#include "collectives/mpi/tuned.h"
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/reducer/reducer_conformance.h"
#include "tests/collectives/reducer/reducer_hosts_conformance.h"

namespace millrace::collectives {
namespace {

// Made by main, because MPI must be up before the tests and go down after them.
struct World {
  std::unique_ptr<Communicator> connected;  // by Connect, or a group of one
  std::unique_ptr<Communicator> tiny;       // pieces of a few bytes, to reach every loop
  std::unique_ptr<Communicator> native;     // MPI's own sums where they may be
  std::unique_ptr<Communicator> ring;       // by Open MPI's segmented ring where it may be
  std::string sums;                         // who makes them, and why
  std::chrono::nanoseconds probe_time{0};   // of the connection
  std::string exact_sums;
  std::string native_sums;
  std::string ring_sums;
};

World& TheWorld() {
  static World world;
  return world;
}

Backend InThisJob(const char* name, std::unique_ptr<Communicator> World::*comm) {
  return {name, [comm](const RankBody& body) { return body(*(TheWorld().*comm)); }, false};
}

const Backend kConnected = InThisJob("Connected", &World::connected);
const Backend kTiny = InThisJob("TinyCalls", &World::tiny);
const Backend kNative = InThisJob("Native", &World::native);
const Backend kRing = InThisJob("Ring", &World::ring);

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorConformance,
                         testing::Values(kConnected, kTiny, kNative, kRing), BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Mpi, ReducerConformance, testing::Values(kConnected), BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Mpi, ReducerHostsConformance, testing::Values(kConnected, kNative),
                         BackendInstanceName);

TEST(Mpi, IsTheBackend) { EXPECT_EQ(TheWorld().connected->backend(), "mpi"); }

TEST(Mpi, SaysWhoMakesTheSumsAndWhy) {
  const char* const expected[] = {"one rank", "4 MiB took", "other bits"};
  EXPECT_NE(TheWorld().sums.find(expected[std::min(TheWorld().connected->size(), 3) - 1]),
            std::string::npos)
      << TheWorld().sums;
  EXPECT_EQ(TheWorld().exact_sums, "sums by messages (exact)");
}

TEST(Mpi, TheProbeBetweenTwoRanksSaysWhatItTook) {
  if (TheWorld().connected->size() != 2) return;
  EXPECT_GT(TheWorld().probe_time.count(), 0);
}

TEST(Mpi, SumsAreMpisOwnWhereThatIsAskedForBetweenTwoRanks) {
  if (TheWorld().connected->size() != 2) return;
  EXPECT_EQ(TheWorld().native_sums, "sums by MPI_Allreduce (asked for)");
}

// One CTest run chooses components as users do.
bool HasRing() {
  return !ReportsMissingPmi() && std::getenv("OMPI_MCA_pml") == nullptr;  // Open MPI
}

constexpr char kByRing[] = "by the segmented ring";

TEST(Mpi, TheProbeTriesTheSegmentedRingBetweenTwoRanks) {
  const bool tried = TheWorld().connected->size() == 2 && HasRing();
  EXPECT_EQ(TheWorld().sums.find(kByRing) != std::string::npos, tried) << TheWorld().sums;
}

TEST(Mpi, TheSegmentedRingIsNeverTakenByMoreRanksNorWhereNobodyCanForceIt) {
  const char* const between_two =
      HasRing() ? "sums by MPI_Allreduce by the segmented ring (asked for)"
                : "sums by messages (this MPI lets nobody force its segmented ring)";
  const char* const expected[] = {"one rank", between_two,
                                  "sums by messages (MPI's have other bits with 3 ranks or more)"};
  EXPECT_EQ(TheWorld().ring_sums, expected[std::min(TheWorld().ring->size(), 3) - 1]);
}

TEST(Mpi, ExactNeverTakesTheSegmentedRing) {
  if (TheWorld().connected->size() < 2) return;
  ConnectOptions options;
  options.exact = true;
  const absl::StatusOr<Launch> exact = Connect(options);
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_NE(exact->reason.find("sums by messages (exact)"), std::string::npos) << exact->reason;
}

TEST(Mpi, WithoutAProbeSumsBetweenTwoRanksAreOurs) {
  if (TheWorld().connected->size() != 2) return;
  std::vector<std::string> told;
  ConnectOptions options;
  options.probe_sums = false;
  options.on_unbounded = [&](std::string_view what) { told.emplace_back(what.substr(0, 9)); };
  const absl::StatusOr<Launch> launch = Connect(options);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_NE(launch->reason.find("sums by messages (MPI's are not probed)"), std::string::npos)
      << launch->reason;
  EXPECT_EQ(told, (std::vector<std::string>{"the start", ""}));
}

// Pieces of 4 MiB, the last one of another size.
TEST(Mpi, TheSegmentedRingHasTheBitsOfOurSums) {
  std::mt19937 random(7 + TheWorld().ring->rank());
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> by_ring((size_t{9} << 18) + 13);
  for (float& value : by_ring) value = values(random);
  std::vector<float> ours = by_ring;
  const Shape shape{static_cast<int64_t>(ours.size())};
  ASSERT_TRUE(
      TheWorld().ring->AllReduce({by_ring.data(), DType::kF32, shape}, ReduceOp::kSum).ok());
  ASSERT_TRUE(TheWorld().tiny->AllReduce({ours.data(), DType::kF32, shape}, ReduceOp::kSum).ok());
  EXPECT_EQ(std::memcmp(by_ring.data(), ours.data(), ours.size() * sizeof(float)), 0);
}

TEST(Mpi, TheSegmentedRingIsForcedOnNoOtherCommunicator) {
  EXPECT_EQ(std::getenv("OMPI_MCA_coll_tuned_use_dynamic_rules"), nullptr);
  if (!HasRing()) return;
  constexpr char kAlgorithm[] = "coll_tuned_allreduce_algorithm";
  EXPECT_TRUE(ControlVariable(kAlgorithm).Is(0));
  {
    const ForcedRing forced;
    EXPECT_TRUE(forced.ok());
    EXPECT_TRUE(ControlVariable(kAlgorithm).Is(5));
  }
  EXPECT_TRUE(ControlVariable(kAlgorithm).Is(0));
}

TEST(Mpi, AVariableThatThisMpiHasNotIsNeitherReadNorSet) {
  if (!HasRing()) return;
  ControlVariable absent("coll_tuned_of_no_version");
  EXPECT_FALSE(absent.Is(0));
  EXPECT_FALSE(absent.Set(1));
}

// The connection that started MPI was dropped before this test.
TEST(Mpi, StaysWhenTheFirstConnectionIsDropped) {
  EXPECT_TRUE(TheWorld().connected->Barrier().ok());
  {
    const auto another = ConnectMpi({});
    ASSERT_TRUE(another.ok()) << another.status();
  }
  EXPECT_TRUE(TheWorld().connected->Barrier().ok());
}

// Groups share MPI's tags, and those end some time.
TEST(Mpi, AGroupBeyondTheTagsIsResourceExhaustedOnEveryRank) {
  MpiOptions options;
  options.sums = MpiOptions::Sums::kOurs;
  options.max_groups = 3;
  absl::StatusOr<MpiLaunch> few = ConnectMpi(options);
  ASSERT_TRUE(few.ok()) << few.status();
  const auto whole = few->communicator->Split(0, 0);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto half = (*whole)->Split(few->communicator->rank() % 2, 0);
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_TRUE((*half)->Barrier().ok());
  const absl::Status beyond = few->communicator->Split(0, 0).status();
  EXPECT_TRUE(absl::IsResourceExhausted(beyond) && IsAgreed(beyond)) << beyond;
  EXPECT_NE(beyond.message().find("MPI_TAG_UB"), absl::string_view::npos) << beyond;
  EXPECT_TRUE(few->communicator->Barrier().ok());  // the group is as it was
}

TEST(Mpi, WithoutTagsForAProbeSumsAreByMessages) {
  if (TheWorld().connected->size() != 2) return;
  MpiOptions options;
  options.max_groups = 1;
  const absl::StatusOr<MpiLaunch> bare = ConnectMpi(options);
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ(bare->sums, "sums by messages (this MPI has no tags for a probe)");
}

TEST(Mpi, AMessageShorterThanAwaitedIsInvalid) {
  Communicator& comm = *TheWorld().connected;
  if (comm.size() < 2 || comm.rank() > 1) return;
  Buffer data(DType::kF32, comm.rank() == 0 ? 4 : 5);
  if (comm.rank() == 0) {
    EXPECT_TRUE(comm.Send(data.view(), 1).ok());
  } else {
    EXPECT_TRUE(absl::IsInvalidArgument(comm.Recv(data.view(), 0)));
  }
}

TEST(Mpi, AMessageLongerThanAwaitedIsInvalid) {
  Communicator& comm = *TheWorld().connected;
  if (comm.size() < 2 || comm.rank() > 1) return;
  Buffer data(DType::kF32, comm.rank() == 0 ? 5 : 4);
  if (comm.rank() == 0) {
    EXPECT_TRUE(comm.Send(data.view(), 1).ok());
  } else {
    EXPECT_TRUE(absl::IsInvalidArgument(comm.Recv(data.view(), 0)));
  }
}

class AbortOnFailure : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& info) override {
    if (info.result()->Failed()) TheWorld().connected->Abort(absl::InternalError("test failed"));
  }
};

absl::Status ConnectWorld() {
  MpiOptions options;
  options.size = 2;
  absl::StatusOr<MpiLaunch> first = ConnectMpi(options);  // starts MPI
  MILLRACE_RETURN_IF_ERROR(first.status());
  MILLRACE_ASSIGN_OR_RETURN(Launch launch, Connect());
  TheWorld().connected = std::move(launch.communicator);
  TheWorld().sums = launch.reason;
  TheWorld().probe_time = launch.probe_time;
  if (TheWorld().connected->backend() != "mpi") {  // one rank: Connect needs no MPI, the test does
    MILLRACE_ASSIGN_OR_RETURN(MpiLaunch one, ConnectMpi({}));
    TheWorld().connected = std::move(one.communicator);
    TheWorld().sums = one.sums;
  }
  first->communicator.reset();
  options.sums = MpiOptions::Sums::kOurs;
  options.transport.piece_bytes = 4096;
  options.transport.round_bytes = 9000;
  options.transport.gather_bytes = 300;
  MILLRACE_ASSIGN_OR_RETURN(MpiLaunch tiny, ConnectMpi(options));
  TheWorld().tiny = std::move(tiny.communicator);
  TheWorld().exact_sums = tiny.sums;
  options = {};
  options.sums = MpiOptions::Sums::kNative;
  MILLRACE_ASSIGN_OR_RETURN(MpiLaunch native, ConnectMpi(options));
  TheWorld().native = std::move(native.communicator);
  TheWorld().native_sums = native.sums;
  options.sums = MpiOptions::Sums::kRing;
  MILLRACE_ASSIGN_OR_RETURN(MpiLaunch ring, ConnectMpi(options));
  TheWorld().ring = std::move(ring.communicator);
  TheWorld().ring_sums = ring.sums;
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::collectives

int main(int argc, char** argv) {
  namespace mc = millrace::collectives;
  testing::InitGoogleTest(&argc, argv);
  if (const absl::Status status = mc::ConnectWorld(); !status.ok()) {
    std::cerr << status << "\n";
    return 1;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new mc::AbortOnFailure);
  const int result = RUN_ALL_TESTS();
  mc::TheWorld().ring.reset();
  mc::TheWorld().native.reset();
  mc::TheWorld().tiny.reset();
  mc::TheWorld().connected.reset();
  if (const absl::Status again = mc::ConnectMpi({}).status(); !absl::IsFailedPrecondition(again)) {
    std::cerr << "MPI is finalised, but connecting once more gives: " << again << "\n";
    return 1;
  }
  return result;
}
