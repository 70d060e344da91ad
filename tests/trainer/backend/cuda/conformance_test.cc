// The backend of a device, over one that the host stands in for.

#include "tests/trainer/backend/backend_conformance.h"
#include "tests/trainer/backend/cuda/tested_device.h"
#include "tests/trainer/backend/network_conformance.h"
#include "tests/trainer/backend/pass_conformance.h"
#include "tests/trainer/backend/synchronized_conformance.h"

namespace millrace::trainer {
namespace {

absl::StatusOr<std::unique_ptr<TestedBackend>> MakeDevice(const Model& model,
                                                          const TensorSet& weights,
                                                          const TensorSet& buffers,
                                                          const BackendOptions& options) {
  return cuda::TestedDevice::Make(model, weights, buffers, options);
}

const auto kBackends = ::testing::Values(BackendCase{"Device", MakeDevice});

INSTANTIATE_TEST_SUITE_P(Device, BackendConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(Device, NetworkConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(Device, DropoutConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(Device, PassConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(Device, SynchronizedConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(Device, CountedSumsConformanceTest, kBackends);

}  // namespace
}  // namespace millrace::trainer
