// The conformance suites over TCP between threads: with what breaks a group, for every test has its
// own connections. tcp_test.cc has processes.
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/tcp/tcp_ranks.h"

namespace millrace::collectives {
namespace {

Backend Tcp(int size) {
  return {absl::StrCat("ranks", size),
          [size](const RankBody& body) { return RunTcpRanks(size, body); }};
}

INSTANTIATE_TEST_SUITE_P(Tcp, CommunicatorConformance, testing::Values(Tcp(2), Tcp(3), Tcp(5)),
                         BackendInstanceName);

}  // namespace
}  // namespace millrace::collectives
