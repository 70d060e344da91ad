// The CPU's backend, over oneDNN.

#include "tests/messages.h"
#include "tests/trainer/backend/backend_conformance.h"
#include "tests/trainer/backend/network_conformance.h"
#include "tests/trainer/backend/pass_conformance.h"
#include "tests/trainer/backend/synchronized_conformance.h"

namespace millrace::trainer {
namespace {

const auto kBackends = ::testing::Values(BackendCase{"OneDnn", TestedOneDnn::Make, true});

INSTANTIATE_TEST_SUITE_P(OneDnn, BackendConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(OneDnn, NetworkConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(OneDnn, DropoutConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(OneDnn, PassConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(OneDnn, SynchronizedConformanceTest, kBackends);
INSTANTIATE_TEST_SUITE_P(OneDnn, CountedSumsConformanceTest, kBackends);

TEST(OneDnnTest, Float16IsForGpus) {
  const Model model = MakeModel(kTransposed);
  BackendOptions options(1);
  options.precision = Precision::kFloat16;
  EXPECT_MESSAGE(
      TestedOneDnn::Make(model, MakeInitialWeights(model, 1), MakeInitialBuffers(model), options),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::trainer
