#include "collectives/nccl_library.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "absl/status/status.h"

namespace millrace::collectives {
namespace {

class NcclLibraryTest : public testing::Test {
 protected:
  void TearDown() override { unsetenv("MILLRACE_NCCL_LIBRARY"); }
};

TEST_F(NcclLibraryTest, IsTheOneThatACommunicatorTakes) {
  setenv("MILLRACE_NCCL_LIBRARY", FAKE_NCCL, 1);
  const auto named = FindNcclLibrary();
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->library, FAKE_NCCL);
  EXPECT_EQ(named->version, "2.28.9");
  EXPECT_TRUE(named->can_register);
  const auto bare = FindNcclLibrary(FAKE_NCCL_BARE);
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_FALSE(bare->can_register);
}

TEST_F(NcclLibraryTest, OneThatACommunicatorRefusesIsRefused) {
  EXPECT_TRUE(absl::IsFailedPrecondition(FindNcclLibrary(FAKE_NCCL_OLD).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(FindNcclLibrary("/no/such").status()));
}

}  // namespace
}  // namespace millrace::collectives
