// The conformance suites over MPI; started by mpirun, every rank runs every test. A rank whose test
// fails says so and takes the job down, for its peers would wait for ever.
#include <iostream>
#include <memory>

#include "collectives/factory.h"
#include "collectives/mpi_internal.h"
#include "tests/collectives/communicator_conformance.h"
#include "tests/collectives/reducer_conformance.h"

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

INSTANTIATE_TEST_SUITE_P(
    Mpi, CommunicatorConformance,
    testing::Values(
        Backend{"Connected", [](const RankBody& body) { return body(*TheWorld().connected); }},
        Backend{"TinyCalls", [](const RankBody& body) { return body(*TheWorld().tiny); }}),
    BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Mpi, ReducerConformance,
                         testing::Values(Backend{
                             "Connected",
                             [](const RankBody& body) { return body(*TheWorld().connected); }}),
                         BackendInstanceName);

TEST(Mpi, IsTheBackend) { EXPECT_EQ(TheWorld().connected->backend(), "mpi"); }

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
  MILLRACE_ASSIGN_OR_RETURN(Launch launch, Connect());
  TheWorld().connected = std::move(launch.communicator);
  if (TheWorld().connected->backend() != "mpi") {  // one rank: Connect needs no MPI, the test does
    MILLRACE_ASSIGN_OR_RETURN(TheWorld().connected, ConnectMpi(1));
  }
  MpiTuning tuning;
  tuning.reduce_chunk_bytes = 40000;
  tuning.max_call_bytes = 50000;
  MILLRACE_ASSIGN_OR_RETURN(TheWorld().tiny, ConnectMpi(0, tuning));
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
  return result;
}
