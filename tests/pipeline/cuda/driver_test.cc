#include "pipeline/cuda/driver.h"

#include <cstdlib>
#include <string>

#include "base/status.h"
#include "tests/messages.h"
#include "tests/pipeline/cuda/fake_cuda.h"

namespace millrace::pipeline::cuda {
namespace {

constexpr char kVariable[] = "MILLRACE_CUDA_LIBRARY";

// Asserts that `library` is refused.
void ExpectNoDriver(const std::string& library) {
  EXPECT_MESSAGE(LoadDriver(library).status(), absl::StatusCode::kFailedPrecondition);
}

class DriverTest : public FakeCudaTest {
 protected:
  void TearDown() override {
    unsetenv("FAKE_CUDA_DEVICES");
    unsetenv("FAKE_CUDA_VERSION");
    setenv(kVariable, FAKE_CUDA, 1);
    FakeCudaTest::TearDown();
  }
};

TEST_F(DriverTest, LibraryAskedForIsTakenWhateverTheVariableSays) {
  setenv(kVariable, "/no/such/libcuda.so", 1);
  const auto driver = LoadDriver(FAKE_CUDA);
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ((*driver)->library, FAKE_CUDA);
  EXPECT_EQ((*driver)->version, 12040);
}

TEST_F(DriverTest, VariableNamesTheLibrary) {
  const auto driver = LoadDriver("");
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ((*driver)->library, FAKE_CUDA);
}

TEST_F(DriverTest, AbsentLibraryIsNamedWithTheVariableThatNamesIt) {
  ExpectNoDriver("/no/such/libcuda.so");
  setenv(kVariable, "/no/other/libcuda.so", 1);
  ExpectNoDriver("");
}

TEST_F(DriverTest, WithoutAnyNameTheLinkerIsAskedForTheDefault) {
  for (const bool is_empty : {true, false}) {
    is_empty ? setenv(kVariable, "", 1) : unsetenv(kVariable);
    const auto driver = LoadDriver("");
    if (driver.ok()) {
      EXPECT_EQ((*driver)->library, "libcuda.so.1");
    } else {
      EXPECT_TRUE(absl::IsFailedPrecondition(driver.status())) << driver.status();
      EXPECT_THAT(std::string(driver.status().message()),
                  testing::AnyOf(testing::HasSubstr("tried libcuda.so.1 (the default"),
                                 testing::HasSubstr("no CUDA device: cuInit")));
    }
  }
}

TEST_F(DriverTest, FileThatIsNoLibraryIsRefused) { ExpectNoDriver("/proc/self/status"); }

TEST_F(DriverTest, AnotherLibraryLacksTheFunctions) { ExpectNoDriver("libc.so.6"); }

TEST_F(DriverTest, MissingFunctionIsNamed) {
  messages::HideInMessages(FAKE_CUDA_TORN, "torn");
  ExpectNoDriver(FAKE_CUDA_TORN);
}

TEST_F(DriverTest, OldDriverIsNamedWithTheVersionWanted) {
  messages::HideInMessages(FAKE_CUDA, "fake");
  setenv("FAKE_CUDA_VERSION", "11010", 1);
  ExpectNoDriver(FAKE_CUDA);
  setenv("FAKE_CUDA_VERSION", "11020", 1);
  EXPECT_TRUE(LoadDriver(FAKE_CUDA).ok());
}

TEST_F(DriverTest, DriverThatDoesNotTellItsVersionIsRefused) {
  messages::HideInMessages(FAKE_CUDA, "fake");
  Fail("cuDriverGetVersion", Result::kInvalidValue);
  ExpectNoDriver(FAKE_CUDA);
}

TEST_F(DriverTest, DriverWithoutADeviceSaysSo) {
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  ExpectNoDriver(FAKE_CUDA);
}

TEST_F(DriverTest, DriverThatCannotStartSaysWhy) {
  Fail("cuInit", static_cast<Result>(999));  // which the fake driver has no name for
  ExpectNoDriver(FAKE_CUDA);
}

TEST_F(DriverTest, DriverOfTheProcessIsLoadedOnce) {
  const auto first = ProcessDriver();
  ASSERT_TRUE(first.ok()) << first.status();
  const int64_t starts = fake_.calls("cuInit");
  setenv(kVariable, "/no/such/libcuda.so", 1);
  EXPECT_EQ(*ProcessDriver(), *first);
  EXPECT_EQ(fake_.calls("cuInit"), starts);
}

TEST_F(DriverTest, StatusNamesTheCallAndTheError) {
  const auto driver = *LoadDriver(FAKE_CUDA);
  EXPECT_TRUE(ToStatus(*driver, Result::kSuccess, "x").ok());
  EXPECT_MESSAGE(ToStatus(*driver, Result::kOutOfMemory, "cuMemAlloc"),
                 absl::StatusCode::kResourceExhausted);
  EXPECT_MESSAGE(ToStatus(*driver, Result::kLaunchFailed, "cuEventQuery"),
                 absl::StatusCode::kInternal);
  EXPECT_MESSAGE(ToStatus(*driver, static_cast<Result>(12345), "cuEventQuery"),
                 absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace millrace::pipeline::cuda
