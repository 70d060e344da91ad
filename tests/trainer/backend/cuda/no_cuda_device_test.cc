#include <gtest/gtest.h>

#include "tests/messages.h"
#include "trainer/backend/cuda/device.h"

namespace millrace::trainer::cuda {
namespace {

TEST(NoCudaDeviceTest, ABuildWithoutCudaSaysSo) {
  const absl::Status status = MakeCudaDevice(0).status();
  if (!absl::IsUnimplemented(status)) GTEST_SKIP() << "this build has CUDA: " << status;
  EXPECT_MESSAGE(status, absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace millrace::trainer::cuda
