#include <cstdlib>

#include "base/status.h"
#include "collectives/nccl/api.h"
#include "gmock/gmock.h"

namespace millrace::collectives::nccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kVariable[] = "MILLRACE_NCCL_LIBRARY";

// The message of a FAILED_PRECONDITION.
std::string Refusal(const std::string& library) {
  const auto api = LoadApi(library);
  EXPECT_TRUE(absl::IsFailedPrecondition(api.status())) << api.status();
  return std::string(ToStd(api.status().message()));
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
  EXPECT_THAT(Refusal("/no/such/libnccl.so"),
              AllOf(HasSubstr("tried /no/such/libnccl.so (asked for)"),
                    HasSubstr("No such file or directory"), HasSubstr(kVariable)));
  setenv(kVariable, "/no/other/libnccl.so", 1);
  EXPECT_THAT(Refusal(""), HasSubstr("tried /no/other/libnccl.so (MILLRACE_NCCL_LIBRARY)"));
}

TEST_F(NcclApiTest, WithoutAnyNameTheLinkerIsAskedForTheDefault) {
  const auto api = LoadApi("");
  if (api.ok()) {
    EXPECT_EQ((*api)->library, "libnccl.so.2");
  } else {
    EXPECT_THAT(Refusal(""), HasSubstr("tried libnccl.so.2 (the default"));
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

TEST_F(NcclApiTest, AFileThatIsNoLibraryIsRefused) {
  EXPECT_THAT(Refusal("/proc/self/status"), HasSubstr("tried /proc/self/status"));
}

TEST_F(NcclApiTest, AnotherLibraryLacksTheVersionFunction) {
  EXPECT_THAT(Refusal("libc.so.6"), HasSubstr("libc.so.6 lacks the function ncclGetVersion"));
}

TEST_F(NcclApiTest, AWrongVersionIsNamedWithTheOneWanted) {
  EXPECT_THAT(Refusal(FAKE_NCCL_OLD), HasSubstr("is version 2.17.1; wanted is 2.18.0 or a newer"));
  EXPECT_THAT(Refusal(FAKE_NCCL_NEXT), HasSubstr("is version 3.0.0"));
}

TEST_F(NcclApiTest, AMissingFunctionIsNamed) {
  EXPECT_THAT(Refusal(FAKE_NCCL_TORN), HasSubstr("lacks the function ncclCommSplit"));
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
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(ToStd(status.message()), "ncclSend: unhandled system error: fake detail");
}

}  // namespace
}  // namespace millrace::collectives::nccl
