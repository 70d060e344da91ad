// The conformance suites over TCP; started by run_ranks.py, every rank runs every test. A rank
// whose test fails takes the job down, for its peers would wait for ever.
#include <cstdlib>
#include <iostream>
#include <memory>

#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/messages/transport_communicator.h"
#include "collectives/tcp/connect_tcp.h"
#include "tests/collectives/communicator_conformance.h"
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/reducer/reducer_conformance.h"
#include "tests/collectives/reducer/reducer_hosts_conformance.h"

namespace millrace::collectives {
namespace {

// Made by main: connected before the tests, and gone after them.
std::unique_ptr<Communicator>& World() {
  static std::unique_ptr<Communicator> world;
  return world;
}
// Pieces of a few bytes, to reach every loop.
std::unique_ptr<Communicator>& Tiny() {
  static std::unique_ptr<Communicator> tiny;
  return tiny;
}

const Backend kConnected{"Connected", [](const RankBody& body) { return body(*World()); }, false};
const Backend kTiny{"TinyPieces", [](const RankBody& body) { return body(*Tiny()); }, false};

INSTANTIATE_TEST_SUITE_P(Tcp, CommunicatorConformance, testing::Values(kConnected, kTiny),
                         BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Tcp, ReducerConformance, testing::Values(kConnected), BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Tcp, ReducerHostsConformance, testing::Values(kConnected),
                         BackendInstanceName);

TEST(Tcp, IsTheBackend) { EXPECT_EQ(World()->backend(), "tcp"); }

class AbortOnFailure : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& info) override {
    if (!info.result()->Failed()) return;
    for (Communicator* comm : {World().get(), Tiny().get()}) {
      comm->Abort(absl::InternalError("test failed"));
    }
  }
};

absl::Status ConnectWorld() {
  ConnectOptions options;
  options.backend = "tcp";
  MILLRACE_ASSIGN_OR_RETURN(Launch launch, Connect(options));
  World() = std::move(launch.communicator);
  // The same place again, once all have left it.
  RendezvousOptions rendezvous;
  rendezvous.address = absl::StrCat("tcp:127.0.0.1:", std::getenv("MASTER_PORT"));
  rendezvous.rank = World()->rank();
  rendezvous.size = World()->size();
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, ConnectTcp(rendezvous));
  TransportOptions tiny;
  tiny.piece_bytes = 5000;
  tiny.round_bytes = 12000;
  tiny.gather_bytes = 100;
  Tiny() = MakeTransportCommunicator(std::move(transport), tiny);
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
  mc::Tiny().reset();
  mc::World().reset();
  return result;
}
