#include <cstdlib>

#include "base/status.h"
#include "collectives/nccl/api.h"
#include "gmock/gmock.h"
#include "tests/messages.h"

namespace millrace::collectives::nccl {
namespace {

using ::testing::HasSubstr;

constexpr char kVariable[] = "MILLRACE_NCCL_LIBRARY";

// Asserts that `library` is refused.
void ExpectRefusal(const std::string& library) {
  EXPECT_MESSAGE(LoadApi(library).status(), absl::StatusCode::kFailedPrecondition);
}

class NcclApiTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv(kVariable); }
  void TearDown() override { unsetenv(kVariable); }
};

TEST_F(NcclApiTest, TheLibraryAskedForIsTakenWhateverTheVariableSays) {
  setenv(kVariable, "/no/such/libnccl.so", 1);
  const auto api = LoadApi(FAKE_NCCL);
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ((*api)->version, 22809);
  EXPECT_TRUE((*api)->can_register());
}

TEST_F(NcclApiTest, TheVariableNamesTheLibrary) {
  setenv(kVariable, FAKE_NCCL, 1);
  const auto api = LoadApi("");
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ((*api)->library, FAKE_NCCL);
}

TEST_F(NcclApiTest, AnAbsentLibraryIsNamedWithWhoNamedItAndWhatTheLinkerSays) {
  ExpectRefusal("/no/such/libnccl.so");
  setenv(kVariable, "/no/other/libnccl.so", 1);
  ExpectRefusal("");
}

TEST_F(NcclApiTest, WithoutAnyNameTheLinkerIsAskedForTheDefault) {
  const auto api = LoadApi("");
  if (api.ok()) {
    EXPECT_EQ((*api)->library, "libnccl.so.2");
  } else {
    EXPECT_TRUE(absl::IsFailedPrecondition(api.status())) << api.status();
    EXPECT_THAT(std::string(ToStd(api.status().message())),
                HasSubstr("tried libnccl.so.2 (the default"));
  }
}

// The real one, which needs no device for this.
TEST_F(NcclApiTest, NvidiasLibraryIsTakenAndMakesIds) {
  const auto api = LoadApi("");
  if (!api.ok()) GTEST_SKIP() << api.status();
  EXPECT_GE((*api)->version, kOldestVersion);
  UniqueId id = {};
  EXPECT_TRUE(ToStatus(**api, (*api)->get_unique_id(&id), nullptr, "ncclGetUniqueId").ok());
  EXPECT_NE(std::string(id.bytes, sizeof(id.bytes)), std::string(sizeof(id.bytes), '\0'));
  EXPECT_NE(std::string((*api)->get_error_string(Result::kRemoteError)), "");
}

TEST_F(NcclApiTest, AFileThatIsNoLibraryIsRefused) { ExpectRefusal("/proc/self/status"); }

TEST_F(NcclApiTest, AnotherLibraryLacksTheVersionFunction) { ExpectRefusal("libc.so.6"); }

TEST_F(NcclApiTest, AWrongVersionIsNamedWithTheOneWanted) {
  messages::HideInMessages(FAKE_NCCL_OLD, "old");
  messages::HideInMessages(FAKE_NCCL_NEXT, "next");
  ExpectRefusal(FAKE_NCCL_OLD);
  ExpectRefusal(FAKE_NCCL_NEXT);
}

TEST_F(NcclApiTest, AMissingFunctionIsNamed) {
  messages::HideInMessages(FAKE_NCCL_TORN, "torn");
  ExpectRefusal(FAKE_NCCL_TORN);
}

TEST_F(NcclApiTest, RegistrationIsOptional) {
  const auto api = LoadApi(FAKE_NCCL_BARE);
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_FALSE((*api)->can_register());
}

TEST(NcclVersion, IsWrittenAsNvidiaWritesIt) {
  EXPECT_EQ(VersionText(22809), "2.28.9");
  EXPECT_EQ(VersionText(21805), "2.18.5");
  EXPECT_EQ(VersionText(2804), "2.8.4");
}

TEST(NcclStatus, NamesTheCallAndNcclsDetail) {
  const auto api = LoadApi(FAKE_NCCL);
  ASSERT_TRUE(api.ok());
  EXPECT_TRUE(ToStatus(**api, Result::kInProgress, nullptr, "x").ok());
  const absl::Status status = ToStatus(**api, Result::kSystemError, nullptr, "ncclSend");
  EXPECT_MESSAGE(status, absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace millrace::collectives::nccl
