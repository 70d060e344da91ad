// The conformance suites over the NCCL communicator and a fake libnccl.
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/nccl/nccl_fixture.h"
#include "tests/collectives/reducer/reducer_conformance.h"
#include "tests/collectives/reducer/staged_communicator.h"

namespace millrace::collectives {
namespace {

// What docs/nccl.md says that NCCL does not do.
Backend WithLimits(std::string name, std::function<absl::Status(const RankBody&)> run) {
  return {.name = std::move(name),
          .run = std::move(run),
          .same_bits = false,
          .begun_messages_meet = false,
          .split_has_timeout = false,  // NcclOptions::connect_timeout
          .tells_why_peers_left = false};
}

Backend FakeNccl(int size) {
  return WithLimits(absl::StrCat("nccl", size), [size](const RankBody& body) {
    return RunOverFakeNccl(size, {.library = FAKE_NCCL}, body);
  });
}

const auto kBackends = testing::Values(FakeNccl(1), FakeNccl(2), FakeNccl(3), FakeNccl(4));

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorConformance, kBackends, BackendInstanceName);
// As on a GPU, whose tests cannot show that the staging itself is right.
Backend Staged(int size) {
  return WithLimits(absl::StrCat("staged", size), [size](const RankBody& body) {
    return RunRanks(size, [&body](Communicator& bootstrap) {
      MILLRACE_ASSIGN_OR_RETURN(auto comm,
                                nccl::MakeNcclOn(bootstrap, {.library = FAKE_NCCL}, MakeHostQueue));
      StagedCommunicator staged(std::move(comm));
      return body(staged);
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Staged, CommunicatorConformance, testing::Values(Staged(3)),
                         BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Nccl, ReducerConformance, kBackends, BackendInstanceName);

}  // namespace
}  // namespace millrace::collectives
