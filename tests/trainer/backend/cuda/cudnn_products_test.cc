#include <gmock/gmock.h>

#include <string>

#include "base/status.h"
#include "trainer/backend/cuda/cudnn/products.h"

namespace millrace::trainer::cuda {
namespace {

using ::testing::HasSubstr;

// Whether or not this build has plans of cuDNN.
TEST(CudnnProductsTest, WithoutALibraryThereAreNone) {
  const auto products = CudnnProducts::Make({.library = "/no/such/libcudnn.so"});
  ASSERT_FALSE(products.ok());
  const std::string text(ToStd(products.status().message()));
  if (absl::IsUnimplemented(products.status())) {
    EXPECT_THAT(text, HasSubstr("this build has no products of cuDNN"));
  } else {
    EXPECT_TRUE(absl::IsFailedPrecondition(products.status())) << products.status();
    EXPECT_THAT(text, HasSubstr("/no/such/libcudnn.so"));
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
