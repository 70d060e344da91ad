#include "cli/doctor/doctor.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/child.h"
#include "cli/doctor/gpu_probe.h"
#include "tests/cli/doctor/made_host.h"
#include "tests/pipeline/cuda/fake_cuda.h"

// The measurements, on the fake driver and fake libraries.

namespace millrace::cli::doctor {
namespace {

using ::testing::HasSubstr;

using pipeline::FakeCuda;
using pipeline::TheFakeCuda;

constexpr size_t kCopyBytes = 1 << 16;

class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("MILLRACE_CUDA_LIBRARY", FAKE_CUDA, 1);
    setenv("MILLRACE_NCCL_LIBRARY", FAKE_NCCL, 1);
    setenv("MILLRACE_CUDNN_LIBRARY", FAKE_CUDNN, 1);
  }
  void TearDown() override {
    for (const char* name :
         {"FAKE_CUDA_DEVICES", "FAKE_CUDA_PEERS", "FAKE_CUDA_SPOILS_PEERS", "FAKE_CUDA_VERSION",
          "FAKE_CUDNN_CRASHES", "MILLRACE_NCCL_LIBRARY", "MILLRACE_CUDNN_LIBRARY"}) {
      unsetenv(name);
    }
    setenv("MILLRACE_CUDA_LIBRARY", FAKE_CUDA, 1);
  }

  // Measures this machine with the files of `made`.
  const Host& Measured() {
    DoctorOptions options;
    options.seconds = 0.01;
    options.copy_bytes = kCopyBytes;
    options.gives_up = gives_up_;
    Measure(options, made_.host);
    return made_.host;
  }

  MadeHost made_;
  // Waits for ever: a hang is ctest's.
  std::function<bool(std::string_view, double)> gives_up_ = [](std::string_view, double) {
    return false;
  };
};

TEST_F(DoctorTest, DevicesAndTheirCopiesAreMeasured) {
  made_.WriteOf("0000:3b:00.0", "current_link_speed", "32.0 GT/s PCIe\n");
  made_.WriteOf("0000:3b:00.0", "current_link_width", "16\n");
  const GpuReport& gpus = Measured().gpus;
  EXPECT_EQ(gpus.driver, FAKE_CUDA);
  EXPECT_EQ(gpus.driver_version, 12040);
  EXPECT_EQ(gpus.end.doing, "");
  ASSERT_EQ(gpus.devices.size(), 2U);
  EXPECT_EQ(gpus.devices[1].name, "Fake GPU 1");
  EXPECT_EQ(gpus.devices[1].memory_bytes, uint64_t{80} << 30);
  EXPECT_EQ(gpus.devices[1].capability, 90);
  EXPECT_EQ(gpus.devices[1].pci_address, "0000:3b:00.0");
  EXPECT_EQ(gpus.devices[1].link_speed, "32.0 GT/s PCIe");
  EXPECT_EQ(gpus.devices[0].link_speed, "");
  EXPECT_GT(gpus.devices[0].to_device, 0);
  EXPECT_GT(gpus.devices[0].to_host, 0);
}

TEST_F(DoctorTest, EachPairIsMeasuredAndItsBytesAreCompared) {
  const GpuReport& gpus = Measured().gpus;
  ASSERT_EQ(gpus.pairs.size(), 2U);
  EXPECT_EQ(gpus.pairs[0].from, 0);
  EXPECT_EQ(gpus.pairs[0].to, 1);
  for (const PairReport& pair : gpus.pairs) {
    EXPECT_EQ(pair.error, "");
    EXPECT_EQ(pair.direct, 1);
    EXPECT_EQ(pair.right, 1);
    EXPECT_GT(pair.bytes_per_second, 0);
  }
}

TEST_F(DoctorTest, BytesThatComeWrongAreFound) {
  setenv("FAKE_CUDA_SPOILS_PEERS", "1", 1);
  for (const PairReport& pair : Measured().gpus.pairs) EXPECT_EQ(pair.right, 0);
  EXPECT_EQ(OnlyOf(CheckPeers(made_.host)).verdict, Verdict::kFail);
}

TEST_F(DoctorTest, PeersThatDoNotReachEachOtherCopyThroughTheHost) {
  setenv("FAKE_CUDA_PEERS", "0", 1);
  for (const PairReport& pair : Measured().gpus.pairs) {
    EXPECT_EQ(pair.error, "");
    EXPECT_EQ(pair.direct, 0);
    EXPECT_EQ(pair.right, 1);
  }
}

TEST_F(DoctorTest, TheDriversAnswersAreAskedForWithoutAMisuseAndNothingIsLeft) {
  const FakeCuda& fake = TheFakeCuda();
  const auto end = RunInChild(
      [&fake](const std::function<void(std::string_view)>& send) {
        GpuProbeOptions options;
        options.copy_seconds = 0.001;
        options.copy_bytes = kCopyBytes;
        ProbeGpus(options, [](const GpuReport&) {});
        send(absl::StrCat(fake.misuses(), " misuses, ", fake.live(nullptr), " live, ",
                          fake.calls("cuMemcpyPeerAsync") > 0 ? "copied" : "idle"));
      },
      {.gives_up = gives_up_});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->last_line, "0 misuses, 0 live, copied");
}

TEST_F(DoctorTest, AFailedCopyIsTheDevicesErrorAndTheOthersGoOn) {
  TheFakeCuda().fail("cuMemcpyDtoHAsync", 1, 719);  // CUDA_ERROR_LAUNCH_FAILED
  const GpuReport& gpus = Measured().gpus;
  TheFakeCuda().reset();
  ASSERT_EQ(gpus.devices.size(), 2U);
  EXPECT_THAT(gpus.devices[0].error, HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  EXPECT_EQ(gpus.devices[1].error, "");
}

TEST_F(DoctorTest, WithoutADeviceTheDriverSaysWhy) {
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_THAT(Measured().gpus.error, HasSubstr("CUDA_ERROR_NO_DEVICE"));
  EXPECT_EQ(OnlyOf(CheckDriver(made_.host)).verdict, Verdict::kSkip);
}

TEST_F(DoctorTest, AnOldDriverIsToldToBeUpdated) {
  made_.AddGpus();
  made_.host.gpus = {};
  setenv("FAKE_CUDA_VERSION", "11010", 1);
  EXPECT_THAT(Measured().gpus.error, HasSubstr("serves CUDA 11.1"));
  const Finding finding = OnlyOf(CheckDriver(made_.host));
  EXPECT_EQ(finding.verdict, Verdict::kFail);
  EXPECT_THAT(finding.mend, HasSubstr("update"));
}

// The call waits until its process is killed.
TEST_F(DoctorTest, ACallThatDoesNotComeBackIsAFailureThatNamesIt) {
  for (const auto& [function, step] :
       {std::pair("cuInit", "loading the driver and cuInit"),
        std::pair("cuDevicePrimaryCtxRetain", "making a context on GPU 0"),
        std::pair("cuMemcpyPeerAsync", "copying from GPU 0 to GPU 1")}) {
    TheFakeCuda().hold(function);
    gives_up_ = [step = std::string(step)](std::string_view last_line, double) {
      return last_line.find(step) != std::string_view::npos;
    };
    const GpuReport& gpus = Measured().gpus;
    TheFakeCuda().hold(nullptr);
    EXPECT_GT(gpus.end.silent_seconds, 0);
    EXPECT_EQ(gpus.end.doing, step);
    const Finding finding = OnlyOf(CheckDriver(made_.host));
    EXPECT_EQ(finding.verdict, Verdict::kFail);
    EXPECT_THAT(finding.found, HasSubstr(step));
  }
}

// By the clock, whatever it was that took so long.
TEST_F(DoctorTest, WithoutAnotherWatchTheTimeoutEndsTheWait) {
  TheFakeCuda().hold("cuInit");
  DoctorOptions options;
  options.seconds = 0.01;
  options.gpu_timeout_seconds = 0.2;
  Measure(options, made_.host);
  TheFakeCuda().hold(nullptr);
  EXPECT_GE(made_.host.gpus.end.silent_seconds, 0.2);
  EXPECT_EQ(OnlyOf(CheckDriver(made_.host)).verdict, Verdict::kFail);
}

TEST_F(DoctorTest, LibrariesTellTheirVersions) {
  const LibrariesReport& libraries = Measured().libraries;
  EXPECT_EQ(libraries.nccl.file, FAKE_NCCL);
  EXPECT_EQ(libraries.nccl.version, "2.28.9");
  EXPECT_EQ(libraries.cudnn.file, FAKE_CUDNN);
  EXPECT_EQ(libraries.cudnn.version, "9.19.0");
  EXPECT_EQ(libraries.cudnn.cuda, 13010);
  EXPECT_EQ(OnlyOf(CheckCudnn(made_.host)).verdict, Verdict::kFail);  // the driver serves 12.4
}

TEST_F(DoctorTest, AnAbsentOrOldLibraryIsTold) {
  setenv("MILLRACE_NCCL_LIBRARY", FAKE_NCCL_OLD, 1);
  setenv("MILLRACE_CUDNN_LIBRARY", "/no/such/libcudnn.so", 1);
  const LibrariesReport& libraries = Measured().libraries;
  EXPECT_EQ(libraries.nccl.file, "");
  EXPECT_THAT(libraries.nccl.error, HasSubstr("2.17.1"));
  EXPECT_THAT(libraries.cudnn.error, HasSubstr("/no/such/libcudnn.so (MILLRACE_CUDNN_LIBRARY)"));
  setenv("MILLRACE_NCCL_LIBRARY", FAKE_NCCL_BARE, 1);
  EXPECT_EQ(Measured().libraries.nccl.limited, 1);
}

TEST_F(DoctorTest, ALibraryThatCrashesTakesOnlyTheChild) {
  setenv("FAKE_CUDNN_CRASHES", "1", 1);
  const LibrariesReport& libraries = Measured().libraries;
  EXPECT_EQ(libraries.end.signal, SIGABRT);
  EXPECT_EQ(libraries.end.doing, "loading cuDNN");
  EXPECT_EQ(OnlyOf(CheckCudnn(made_.host)).verdict, Verdict::kFail);
  EXPECT_EQ(made_.host.gpus.devices.size(), 2U);  // another child asked for them
}

TEST_F(DoctorTest, DataAndDecodingAreMeasured) {
  made_.Write("/data/a.bin", std::string(1 << 20, 'x'));
  DoctorOptions options;
  options.seconds = 0.01;
  options.copy_bytes = kCopyBytes;
  options.gives_up = gives_up_;
  options.data = {made_.root() + "/data", "/no/such"};
  int ticks = 0;
  options.tick = [&ticks] { ++ticks; };
  Measure(options, made_.host);
  ASSERT_EQ(made_.host.disks.size(), 2U);
  EXPECT_EQ(made_.host.disks[0].error, "");
  EXPECT_EQ(made_.host.disks[0].num_files, 1U);
  EXPECT_NE(made_.host.disks[1].error, "");
  EXPECT_GT(made_.host.decoding.images_per_second, 0);
  EXPECT_GT(ticks, 0);
}

}  // namespace
}  // namespace millrace::cli::doctor
