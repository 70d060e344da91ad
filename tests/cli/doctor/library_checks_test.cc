#include <gmock/gmock.h>

#include "cli/doctor/checks.h"
#include "cli/doctor/libraries.h"
#include "tests/cli/doctor/made_host.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(VersionTextTest, IsThatOfEachLibrary) {
  EXPECT_EQ(CudaVersionText(12040), "12.4");
  EXPECT_EQ(CudaVersionText(13000), "13.0");
}

TEST(LibraryChecksTest, VersionsAndFilesAreTold) {
  MadeHost made;
  made.AddGpus();
  EXPECT_EQ(OnlyOf(CheckRuntime(made.host)).found, "13.0 (libcudart.so.13)");
  EXPECT_EQ(OnlyOf(CheckCudnn(made.host)).found, "9.19.0 (libcudnn.so.9)");
  EXPECT_EQ(OnlyOf(CheckNccl(made.host)).found, "2.28.9 (libnccl.so.2)");
}

// cudaErrorInsufficientDriver.
TEST(LibraryChecksTest, ADriverOfAnEarlierMajorVersionIsTooOld) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.driver_version = 12080;
  const Finding cudnn = OnlyOf(CheckCudnn(made.host));
  EXPECT_EQ(cudnn.verdict, Verdict::kFail);
  EXPECT_EQ(cudnn.found,
            "9.19.0 (libcudnn.so.9) needs CUDA 13.1; the driver serves 12.8 "
            "(cudaErrorInsufficientDriver)");
  EXPECT_THAT(cudnn.mend, HasSubstr("for CUDA 12"));
  // Only a build with CUDA loads a runtime.
  EXPECT_EQ(OnlyOf(CheckRuntime(made.host)).verdict, Verdict::kWarn);
  made.host.kernel_capability = 90;
  EXPECT_EQ(OnlyOf(CheckRuntime(made.host)).verdict, Verdict::kFail);
}

TEST(LibraryChecksTest, ALaterMinorVersionIsAllowed) {
  MadeHost made;
  made.AddGpus();
  made.host.libraries.cudnn.cuda = 13020;
  EXPECT_EQ(OnlyOf(CheckCudnn(made.host)).verdict, Verdict::kOk);
}

TEST(LibraryChecksTest, WithoutGpusNoneIsMissed) {
  MadeHost made;
  made.TakeLibraries();
  EXPECT_EQ(OnlyOf(CheckRuntime(made.host)).found, "not found; only a build with CUDA needs it");
  EXPECT_EQ(OnlyOf(CheckCudnn(made.host)).verdict, Verdict::kSkip);
  EXPECT_EQ(OnlyOf(CheckNccl(made.host)).verdict, Verdict::kSkip);
}

TEST(LibraryChecksTest, GpusMissNcclAndCudnn) {
  MadeHost made;
  made.AddGpus();
  made.host.libraries.nccl = {.error = "no NCCL: tried libnccl.so.2 (the default): cannot open"};
  const Finding nccl = OnlyOf(CheckNccl(made.host));
  EXPECT_EQ(nccl.verdict, Verdict::kWarn);
  EXPECT_THAT(nccl.found, HasSubstr("cannot open"));
  EXPECT_THAT(nccl.mend, HasSubstr("pip install nvidia-nccl-cu13"));
  made.host.libraries.cudnn = {.error = "no cuDNN: tried libcudnn.so.9 (the default): cannot open"};
  const Finding cudnn = OnlyOf(CheckCudnn(made.host));
  EXPECT_EQ(cudnn.verdict, Verdict::kWarn);
  EXPECT_THAT(cudnn.mend, HasSubstr("pip install nvidia-cudnn-cu13"));
}

// It cannot be one of several hosts.
TEST(LibraryChecksTest, OneGpuWithoutNcclIsAWarningThatSaysWhatItCanDo) {
  MadeHost made;
  made.AddGpus();
  EXPECT_GT(made.host.gpus.devices.size(), 1u);
  made.host.libraries.nccl = {.error = "no NCCL: tried libnccl.so.2 (the default): cannot open"};
  EXPECT_THAT(OnlyOf(CheckNccl(made.host)).found, Not(HasSubstr("one GPU")));
  made.host.gpus.devices.resize(1);
  const Finding nccl = OnlyOf(CheckNccl(made.host));
  EXPECT_EQ(nccl.verdict, Verdict::kWarn);
  EXPECT_THAT(nccl.found, EndsWith("cannot open; one GPU trains without it"));
}

TEST(LibraryChecksTest, ACudnnThatIsTooOldForTheTrainerIsAWarning) {
  MadeHost made;
  made.AddGpus();
  made.host.libraries.cudnn = {.error =
                                   "cuDNN library libcudnn.so.9 is version 9.7.0; wanted is ..."};
  EXPECT_EQ(OnlyOf(CheckCudnn(made.host)).verdict, Verdict::kWarn);
}

TEST(LibraryChecksTest, ALibraryThatNothingLooksForComesWithItsVariable) {
  MadeHost made;
  made.AddGpus();
  made.host.libraries.nccl.file = "/venv/nvidia/nccl/lib/libnccl.so.2";
  made.host.libraries.nccl.elsewhere = 1;
  const Finding finding = OnlyOf(CheckNccl(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_EQ(finding.mend, "export MILLRACE_NCCL_LIBRARY=/venv/nvidia/nccl/lib/libnccl.so.2");
  made.host.gpus = {};
  EXPECT_EQ(OnlyOf(CheckNccl(made.host)).verdict, Verdict::kSkip);
}

TEST(LibraryChecksTest, ALibraryThatTheUserNamedOrThatDoesNotDoIsAWarning) {
  MadeHost made;
  made.host.libraries.nccl = {.error = "no NCCL: tried /x (MILLRACE_NCCL_LIBRARY): cannot open"};
  EXPECT_EQ(OnlyOf(CheckNccl(made.host)).verdict, Verdict::kWarn);
  made.host.libraries.nccl = {.error =
                                  "NCCL library libnccl.so.2 is version 2.17.1; wanted is ..."};
  EXPECT_EQ(OnlyOf(CheckNccl(made.host)).verdict, Verdict::kWarn);
  made.host.libraries.nccl = {.error = "no NCCL: tried libnccl.so.2: lacks the function ncclSend"};
  EXPECT_EQ(OnlyOf(CheckNccl(made.host)).verdict, Verdict::kWarn);
}

TEST(LibraryChecksTest, NcclThatRegistersNoMemoryIsAWarning) {
  MadeHost made;
  made.AddGpus();
  made.host.libraries.nccl = {.file = "libnccl.so.2", .version = "2.18.5", .limited = 1};
  EXPECT_THAT(OnlyOf(CheckNccl(made.host)).mend, HasSubstr("2.19"));
}

TEST(LibraryChecksTest, ALibraryThatCrashesOrHangsFailsAndThoseBehindItAreSkipped) {
  MadeHost made;
  made.AddGpus();
  made.host.libraries.cudnn = {};
  made.host.libraries.nccl = {};
  made.host.libraries.end = {.doing = "loading cuDNN", .silent_seconds = 0, .signal = 6};
  EXPECT_EQ(OnlyOf(CheckRuntime(made.host)).verdict, Verdict::kOk);
  EXPECT_EQ(OnlyOf(CheckCudnn(made.host)).verdict, Verdict::kFail);
  EXPECT_EQ(OnlyOf(CheckCudnn(made.host)).found, "loading cuDNN crashed with signal 6");
  EXPECT_EQ(OnlyOf(CheckNccl(made.host)).verdict, Verdict::kSkip);
  made.host.libraries.end = {.doing = "loading cuDNN", .silent_seconds = 10, .signal = 0};
  EXPECT_EQ(OnlyOf(CheckNccl(made.host)).found, "not asked: loading cuDNN did not come back");
}

}  // namespace
}  // namespace millrace::cli::doctor
