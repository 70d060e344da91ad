// The conformance suites over the backends inside one process.
#include "collectives/core/single_on_device.h"
#include "collectives/factory.h"
#include "tests/collectives/communicator_conformance.h"
#include "tests/collectives/cuda/host_queue.h"
#include "tests/collectives/group_conformance.h"
#include "tests/collectives/reducer/reducer_conformance.h"

namespace millrace::collectives {
namespace {

Backend Single() {
  return {"single", [](const RankBody& body) { return body(*MakeSingle()); }};
}

Backend SingleOnDevice() {
  return {"single_on_device", [](const RankBody& body) {
            return body(*MakeSingleOn(std::make_unique<HostQueue>(), MakeSingle(), nullptr));
          }};
}

Backend Threads(int size) {
  return {absl::StrCat("threads", size),
          [size](const RankBody& body) { return RunRanks(size, body); }};
}

std::vector<Backend> Backends() {
  std::vector<Backend> backends = {Single(), SingleOnDevice()};
  for (const int size : Sizes()) backends.push_back(Threads(size));
  return backends;
}

const auto kBackends = testing::ValuesIn(Backends());
INSTANTIATE_TEST_SUITE_P(Local, CommunicatorConformance, kBackends, BackendInstanceName);
INSTANTIATE_TEST_SUITE_P(Local, ReducerConformance, kBackends, BackendInstanceName);

}  // namespace
}  // namespace millrace::collectives
