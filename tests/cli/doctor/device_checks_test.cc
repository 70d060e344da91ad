#include <gmock/gmock.h>

#include <string>

#include "cli/doctor/checks.h"
#include "tests/cli/doctor/made_host.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CheckDriverTest, TheVersionsOfModuleAndCudaAreTold) {
  MadeHost made;
  made.AddGpus();
  EXPECT_EQ(OnlyOf(CheckDriver(made.host)).found, "580.65.06, serves CUDA 13.0 (libcuda.so.1)");
}

TEST(CheckDriverTest, WithoutAGpuThereIsNothingToLookAt) {
  MadeHost made;
  made.TakeLibraries();
  EXPECT_EQ(OnlyOf(CheckDriver(made.host)).found, "no GPU on this machine");
  // A container's image may have the library all the same.
  made.host.gpus.error = "no CUDA device: cuInit: CUDA_ERROR_NO_DEVICE: no device";
  const Finding finding = OnlyOf(CheckDriver(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kSkip);
  EXPECT_THAT(finding.found, HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST(CheckDriverTest, AGpuWithoutADriverIsAWarning) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus = {};
  made.TakeLibraries();
  const Finding finding = OnlyOf(CheckDriver(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("2 GPUs (0000:3a:00.0 first) without a driver"));
  EXPECT_THAT(finding.mend, HasSubstr("--gpus all"));
}

// A container that was started without GPUs, with a driver's library in its image.
TEST(CheckDriverTest, ALibraryWithoutDeviceNodesIsAFailure) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus = {.error = "no CUDA device: cuInit: CUDA_ERROR_NO_DEVICE: no device"};
  made.Remove("/dev");
  const Finding finding = OnlyOf(CheckDriver(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kFail);
  EXPECT_THAT(finding.found, HasSubstr("no /dev/nvidia0, but 2 GPUs"));
  EXPECT_THAT(finding.mend, HasSubstr("--gpus all"));
}

TEST(CheckDriverTest, AnErrorOfTheDriverComesWithItsOwnCure) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus = {.error = "no CUDA device: cuInit: CUDA_ERROR_SYSTEM_NOT_READY: not ready"};
  EXPECT_EQ(OnlyOf(CheckDriver(made.host)).verdict, Verdict::kFail);
  EXPECT_THAT(OnlyOf(CheckDriver(made.host)).mend, HasSubstr("nvidia-fabricmanager"));
  made.host.gpus.error = "no CUDA device: cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: mismatch";
  EXPECT_THAT(OnlyOf(CheckDriver(made.host)).mend, HasSubstr("reboot"));
  made.host.gpus.error = "CUDA driver libcuda.so.1 serves CUDA 11.1; wanted is 11.2 or newer";
  EXPECT_THAT(OnlyOf(CheckDriver(made.host)).mend, HasSubstr("update NVIDIA's driver"));
  made.host.gpus.error = "no CUDA device: cuInit: CUDA_ERROR_OF_ANOTHER_KIND";
  EXPECT_THAT(OnlyOf(CheckDriver(made.host)).mend, HasSubstr("dmesg"));
}

TEST(CheckDriverTest, ADriverThatHangsOrCrashesIsAFailureWithTheCall) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus = {
      .end = {.doing = "loading the driver and cuInit", .silent_seconds = 10.04, .signal = 0}};
  const Finding hangs = OnlyOf(CheckDriver(made.host));
  EXPECT_EQ(hangs.verdict, Verdict::kFail);
  EXPECT_EQ(hangs.found, "did not answer within 10 s: loading the driver and cuInit");
  EXPECT_THAT(hangs.mend, HasSubstr("dmesg | grep -i -e xid"));
  EXPECT_EQ(OnlyOf(CheckCopies(made.host)).found, "the driver did not answer");
  made.host.gpus.end = {.doing = "copying to GPU 0", .silent_seconds = 0, .signal = 11};
  EXPECT_EQ(OnlyOf(CheckDriver(made.host)).found, "crashed with signal 11: copying to GPU 0");
}

TEST(CheckDevicesTest, EachDeviceHasALine) {
  MadeHost made;
  made.AddGpus();
  EXPECT_EQ(FindingAbout(CheckDevices(made.host), "device 1").found,
            "NVIDIA H100, 80.0 GiB, compute capability 9.0, at 0000:3b:00.0");
  EXPECT_EQ(OnlyOf(CheckDevices(MadeHost().host)).verdict, Verdict::kSkip);
}

TEST(CheckDevicesTest, ADeviceBelowTheKernelsIsAWarning) {
  MadeHost made;
  made.AddGpus();
  made.host.kernel_capability = 90;
  EXPECT_EQ(FindingAbout(CheckDevices(made.host), "device 0").verdict, Verdict::kOk);
  made.host.gpus.devices[0].capability = 75;
  const Finding finding = FindingAbout(CheckDevices(made.host), "device 0");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("the kernels of this build need 9.0"));
  EXPECT_EQ(finding.mend, "build with -DCMAKE_CUDA_ARCHITECTURES=75");
}

TEST(CheckDevicesTest, ADeviceThatFellOffTheBusIsAFailureWhetherTheDriverListsItOrNot) {
  MadeHost made;
  made.AddGpus();
  made.WriteOf(MadeHost::kSecond, "config", std::string(64, '\xff'));
  EXPECT_EQ(FindingAbout(CheckDevices(made.host), "device 1").found,
            "0000:3b:00.0 fell off the bus");
  EXPECT_EQ(FindingAbout(CheckDevices(made.host), "device 0").verdict, Verdict::kOk);
  made.host.gpus.devices.resize(1);
  EXPECT_EQ(FindingAbout(CheckDevices(made.host), "device 0000:3b:00.0").verdict, Verdict::kFail);
}

TEST(CheckDevicesTest, ADeviceWithAnErrorIsAFailure) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.devices[0].error = "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY";
  EXPECT_EQ(FindingAbout(CheckDevices(made.host), "device 0").verdict, Verdict::kFail);
}

TEST(CheckCopiesTest, SlowForTheLinkIsAWarning) {
  MadeHost made;
  made.AddGpus();
  EXPECT_EQ(FindingAbout(CheckCopies(made.host), "copies 0").found,
            "55.0 GB/s to the device, 53.0 GB/s from it, of 63.0 GB/s by gen 5 x16");
  made.host.gpus.devices[1].to_host = 20e9;
  EXPECT_EQ(FindingAbout(CheckCopies(made.host), "copies 1").verdict, Verdict::kWarn);
  EXPECT_EQ(FindingAbout(CheckCopies(made.host), "copies 0").verdict, Verdict::kOk);
}

TEST(CheckCopiesTest, ALinkThatIsUnknownIsNotJudged) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.devices[0].link_speed = "Unknown";
  made.host.gpus.devices[0].to_host = 1e9;
  made.host.gpus.devices[1].to_host = 0;
  EXPECT_EQ(FindingAbout(CheckCopies(made.host), "copies 0").verdict, Verdict::kOk);
  EXPECT_EQ(FindingAbout(CheckCopies(made.host), "copies 1").verdict, Verdict::kSkip);
}

TEST(CheckPeersTest, AllPairsHaveTheirPlaceInTheMatrix) {
  MadeHost made;
  made.AddGpus();
  const Finding finding = OnlyOf(CheckPeers(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_EQ(finding.found, "2 of 2 pairs copy directly");
  EXPECT_THAT(finding.details, ElementsAre("GB/s        0       1",  //
                                           "    0       -    42.0",  //
                                           "    1    41.0       -"));
}

TEST(CheckPeersTest, WrongBytesComeBeforeAllElse) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.pairs[0].error = "cuMemcpyPeerAsync: CUDA_ERROR_UNKNOWN";
  EXPECT_EQ(OnlyOf(CheckPeers(made.host)).verdict, Verdict::kFail);
  made.host.gpus.pairs[1].right = 0;
  const Finding finding = OnlyOf(CheckPeers(made.host));
  EXPECT_EQ(finding.found, "bytes come wrong: 1 to 0");
  EXPECT_THAT(finding.mend, HasSubstr("NCCL_P2P_DISABLE=1"));
}

TEST(CheckPeersTest, SlowerThanThroughTheHostIsAWarning) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.pairs[1].bytes_per_second = 5e9;
  const Finding finding = OnlyOf(CheckPeers(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_EQ(finding.found, "slower than half of the way through the host: 1 to 0");
}

TEST(CheckPeersTest, PairsThatGoThroughTheHostAreAWarning) {
  MadeHost made;
  made.AddGpus();
  for (PairReport& pair : made.host.gpus.pairs) pair.direct = 0;
  EXPECT_EQ(OnlyOf(CheckPeers(made.host)).found,
            "0 of 2 pairs copy directly; through the host: 0 to 1, 1 to 0");
}

TEST(CheckPeersTest, ManyPairsAreNotAllNamed) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.pairs.clear();
  for (int to = 1; to < 6; ++to) made.host.gpus.pairs.push_back({.from = 0, .to = to});
  EXPECT_THAT(OnlyOf(CheckPeers(made.host)).found, HasSubstr("0 to 1, 0 to 2, 0 to 3 and 2 more"));
}

TEST(CheckPeersTest, OneGpuHasNoPeer) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.pairs.clear();
  EXPECT_EQ(OnlyOf(CheckPeers(made.host)).found, "not measured");
  made.host.gpus.devices.resize(1);
  EXPECT_EQ(OnlyOf(CheckPeers(made.host)).found, "one GPU has no peer");
}

}  // namespace
}  // namespace millrace::cli::doctor
