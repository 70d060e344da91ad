// The conformance suites over MPI; started by mpirun, every rank runs every test. A rank whose test
// fails says so and takes the job down, for its peers would wait for ever.
#include <iostream>
#include <memory>

#include "collectives/agreed.h"
#include "collectives/factory.h"
#include "collectives/mpi/connect_mpi.h"
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/reducer/reducer_conformance.h"
#include "tests/collectives/reducer/reducer_hosts_conformance.h"

namespace millrace::collectives {
namespace {

// Made by main, because MPI must be up before the tests and go down after them.
struct World {
  std::unique_ptr<Communicator> connected;  // by Connect, or a group of one
  std::unique_ptr<Communicator> tiny;       // pieces of a few bytes, to reach every loop
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

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorConformance, testing::Values(kConnected, kTiny),
                         BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Mpi, ReducerConformance, testing::Values(kConnected), BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Mpi, ReducerHostsConformance, testing::Values(kConnected),
                         BackendInstanceName);

TEST(Mpi, IsTheBackend) { EXPECT_EQ(TheWorld().connected->backend(), "mpi"); }

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
  options.max_groups = 3;
  absl::StatusOr<std::unique_ptr<Communicator>> few = ConnectMpi(options);
  ASSERT_TRUE(few.ok()) << few.status();
  const auto whole = (*few)->Split(0, 0);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto half = (*whole)->Split((*few)->rank() % 2, 0);
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_TRUE((*half)->Barrier().ok());
  const absl::Status beyond = (*few)->Split(0, 0).status();
  EXPECT_TRUE(absl::IsResourceExhausted(beyond) && IsAgreed(beyond)) << beyond;
  EXPECT_NE(beyond.message().find("MPI_TAG_UB"), absl::string_view::npos) << beyond;
  EXPECT_TRUE((*few)->Barrier().ok());  // the group is as it was
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
  absl::StatusOr<std::unique_ptr<Communicator>> first = ConnectMpi({});  // starts MPI
  MILLRACE_RETURN_IF_ERROR(first.status());
  MILLRACE_ASSIGN_OR_RETURN(Launch launch, Connect());
  TheWorld().connected = std::move(launch.communicator);
  if (TheWorld().connected->backend() != "mpi") {  // one rank: Connect needs no MPI, the test does
    MILLRACE_ASSIGN_OR_RETURN(TheWorld().connected, ConnectMpi({}));
  }
  first->reset();
  MpiOptions options;
  options.transport = {.piece_bytes = 4096, .round_bytes = 9000, .gather_bytes = 300};
  MILLRACE_ASSIGN_OR_RETURN(TheWorld().tiny, ConnectMpi(options));
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
  mc::TheWorld().tiny.reset();
  mc::TheWorld().connected.reset();
  if (const absl::Status again = mc::ConnectMpi({}).status(); !absl::IsFailedPrecondition(again)) {
    std::cerr << "MPI is finalised, but connecting once more gives: " << again << "\n";
    return 1;
  }
  return result;
}
