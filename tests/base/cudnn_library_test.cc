#include "base/cudnn_library.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/status.h"
#include "tests/messages.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kVariable[] = "MILLRACE_CUDNN_LIBRARY";

void ExpectRefusal(const std::string& library) {
  EXPECT_MESSAGE(LoadCudnn(library).status(), absl::StatusCode::kFailedPrecondition);
}

class CudnnLibraryTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv(kVariable); }
  void TearDown() override { unsetenv(kVariable); }
};

TEST_F(CudnnLibraryTest, TheLibraryAskedForIsTakenWhateverTheVariableSays) {
  setenv(kVariable, "/no/such/libcudnn.so", 1);
  const auto library = LoadCudnn(FAKE_CUDNN);
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->version, 90800u);
  EXPECT_NE(library->handle, nullptr);
}

TEST_F(CudnnLibraryTest, TheVariableNamesTheLibrary) {
  setenv(kVariable, FAKE_CUDNN, 1);
  const auto library = LoadCudnn("");
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->file, FAKE_CUDNN);
}

TEST_F(CudnnLibraryTest, AnAbsentLibraryIsNamedWithWhoNamedItAndWhatTheLinkerSays) {
  ExpectRefusal("/no/such/libcudnn.so");
  setenv(kVariable, "/no/other/libcudnn.so", 1);
  ExpectRefusal("");
}

TEST_F(CudnnLibraryTest, WithoutAnyNameTheLinkerIsAskedForTheDefault) {
  const auto library = LoadCudnn("");
  if (library.ok()) {
    EXPECT_EQ(library->file, "libcudnn.so.9");
  } else {
    EXPECT_TRUE(absl::IsFailedPrecondition(library.status())) << library.status();
    EXPECT_THAT(std::string(ToStd(library.status().message())),
                HasSubstr("tried libcudnn.so.9 (the default"));
  }
}

TEST_F(CudnnLibraryTest, AFileThatIsNoLibraryIsRefused) { ExpectRefusal("/proc/self/status"); }

TEST_F(CudnnLibraryTest, AnotherLibraryLacksTheVersionFunction) { ExpectRefusal("libc.so.6"); }

TEST_F(CudnnLibraryTest, AVersionIsRead) {
  EXPECT_EQ(CudnnVersionText(91900), "9.19.0");
  EXPECT_EQ(CudnnVersionText(90102), "9.1.2");
  EXPECT_EQ(CudnnVersionText(8902), "8.9.2");
}

TEST_F(CudnnLibraryTest, AWrongVersionIsNamedWithTheOneWanted) {
  messages::HideInMessages(FAKE_CUDNN_8, "old");
  messages::HideInMessages(FAKE_CUDNN_OLD, "9.7");
  messages::HideInMessages(FAKE_CUDNN_NEXT, "next");
  ExpectRefusal(FAKE_CUDNN_8);
  ExpectRefusal(FAKE_CUDNN_OLD);
  ExpectRefusal(FAKE_CUDNN_NEXT);
}

}  // namespace
}  // namespace millrace
