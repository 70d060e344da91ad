#include "cli/doctor/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/doctor/doctor.h"
#include "cli/doctor/gpu_report.h"
#include "tests/cli/doctor/made_host.h"

namespace millrace::cli::doctor {
namespace {

// The text without the made host's own folder.
std::string TextOfHost(const MadeHost& made) {
  std::string text = FindingsText(Examine(made.host));
  for (size_t at = text.find(made.root()); at != std::string::npos; at = text.find(made.root())) {
    text.erase(at, made.root().size());
  }
  return text;
}

TEST(FindingsTextTest, OfAHealthyHost) {
  MadeHost made;
  made.AddGpus();
  made.host.disks = {{.path = "/data",
                      .num_files = 64,
                      .file_bytes = uint64_t{8} << 30,
                      .read_bytes = 10000000000,
                      .seconds = 4}};
  EXPECT_EQ("\n" + TextOfHost(made), R"(
OK    cores           16 of 16 usable, A Processor
OK    vectors         avx2, amx_bf16
OK    memory          60.0 GiB of 64.0 GiB available
OK    huge pages      madvise
OK    numa            2 nodes
                      node 0: 8 of 8 cores, GPUs 0000:3a:00.0
                      node 1: 8 of 8 cores, GPUs 0000:3b:00.0
OK    clock           tsc
OK    open files      at most 65,536
OK    locked memory   unlimited
OK    stack           8.0 MiB
OK    core files      unlimited
OK    shared memory   31.0 GiB of 32.0 GiB free in /dev/shm; 2 ranks of ResNet-50 share 196.0 MiB
OK    mpi             in this build; /usr/bin/mpirun
OK    decoding        700 JPEGs/s on one core (500 x 375, 96.0 KiB, made)
OK    data            /data: 2500 MB/s past the page cache (64 files, 8.0 GiB)
OK    driver          580.65.06, serves CUDA 13.0 (libcuda.so.1)
OK    device 0        NVIDIA H100, 80.0 GiB, compute capability 9.0, at 0000:3a:00.0
OK    device 1        NVIDIA H100, 80.0 GiB, compute capability 9.0, at 0000:3b:00.0
OK    pcie 0          gen 5 x16 of gen 5 x16
OK    pcie 1          gen 5 x16 of gen 5 x16
OK    copies 0        55.0 GB/s to the device, 53.0 GB/s from it, of 63.0 GB/s by gen 5 x16
OK    copies 1        55.0 GB/s to the device, 53.0 GB/s from it, of 63.0 GB/s by gen 5 x16
OK    iommu           off
OK    acs             no bridge redirects copies between GPUs
OK    p2p             2 of 2 pairs copy directly
                      GB/s        0       1
                          0       -    42.0
                          1    41.0       -
OK    cuda runtime    13.0 (libcudart.so.13)
OK    cudnn           9.19.0 (libcudnn.so.9)
OK    nccl            2.28.9 (libnccl.so.2)
27 ok, 0 warnings, 0 failures, 0 skipped
)");
}

// PCIe of generation 1 with 4 lanes, an IOMMU, the /dev/shm of Docker, few open files, and a pair
// of GPUs that loses bytes.
TEST(FindingsTextTest, OfASickHost) {
  MadeHost made;
  made.AddGpus();
  made.SetLink(1, "2.5 GT/s PCIe", "4");
  made.host.gpus.devices[1].to_device = 0.8e9;
  made.host.gpus.devices[1].to_host = 0.5e9;
  made.host.gpus.pairs[0].right = 0;
  made.WriteOf(MadeHost::kFirst, "iommu_group/type", "DMA\n");
  made.WriteOf(MadeHost::kSecond, "iommu_group/type", "DMA\n");
  made.SetAcs(MadeHost::kFirstPort, 0x1d);
  made.host.shared_memory = Space{.total_bytes = 64 << 20, .free_bytes = 60 << 20};
  made.SetLimits("0", "256", "65536", "unlimited");
  made.Write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  made.host.processors = {0, 1};
  made.host.cores = {.online = 16, .affinity = 2, .quota = 0, .usable = 2, .source = "affinity"};
  made.host.libraries.cudnn.cuda = 14000;
  EXPECT_EQ("\n" + TextOfHost(made), R"(
WARN  cores           2 of 16 usable (affinity), A Processor; 2 GPUs need more
                      -> give the process more: docker run --cpus, srun --cpus-per-task, taskset,
                         mpirun --bind-to none
OK    vectors         avx2, amx_bf16
OK    memory          60.0 GiB of 64.0 GiB available
OK    huge pages      madvise
WARN  numa            2 nodes; no usable core is on node 1, where GPU 0000:3b:00.0 is
                      node 0: 2 of 8 cores, GPUs 0000:3a:00.0
                      node 1: 0 of 8 cores, GPUs 0000:3b:00.0
                      -> numactl --cpunodebind=1 --membind=1 millrace ...
OK    clock           tsc
WARN  open files      at most 256; shards are closed and opened again, and connections may fail
                      -> ulimit -n 65536
WARN  locked memory   64.0 KiB; NCCL and MPI register more over InfiniBand
                      -> ulimit -l unlimited (docker run --ulimit memlock=-1; systemd:
                         LimitMEMLOCK=infinity)
WARN  stack           unlimited; threads get 2 MiB or less, and NCCL may need more
                      -> ulimit -s 8192
OK    core files      off: a crash leaves none (ulimit -c unlimited to have them)
WARN  shared memory   60.0 MiB of 64.0 MiB free in /dev/shm; 2 ranks of ResNet-50 share 196.0 MiB
                      -> docker run --shm-size=1g (or --ipc=host); Kubernetes: an emptyDir of medium
                         Memory at /dev/shm; else mount -o remount,size=1g /dev/shm
OK    mpi             in this build; /usr/bin/mpirun
OK    decoding        700 JPEGs/s on one core (500 x 375, 96.0 KiB, made)
SKIP  data            no --data PATH: name shards or their folder to measure the disk
OK    driver          580.65.06, serves CUDA 13.0 (libcuda.so.1)
OK    device 0        NVIDIA H100, 80.0 GiB, compute capability 9.0, at 0000:3a:00.0
OK    device 1        NVIDIA H100, 80.0 GiB, compute capability 9.0, at 0000:3b:00.0
OK    pcie 0          gen 5 x16 of gen 5 x16
WARN  pcie 1          gen 1 x4 of gen 5 x16
                      -> lspci -vv -s 0000:3b:00.0 | grep Lnk; seat the card anew, use a slot with
                         all lanes, and set the slot's generation to auto in the firmware
OK    copies 0        55.0 GB/s to the device, 53.0 GB/s from it, of 63.0 GB/s by gen 5 x16
WARN  copies 1        0.8 GB/s to the device, 0.5 GB/s from it, of 1.0 GB/s by gen 1 x4
                      -> run on the device's NUMA node (see numa), with nothing else on the device
                         and the memory; then see iommu
WARN  iommu           translates the addresses of 0000:3a:00.0, 0000:3b:00.0; copies between GPUs
                         are slow, wrong or hang
                      -> add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in
                         /etc/default/grub, then update-grub and reboot), or turn it off in the
                         firmware; a virtual machine's stays on
WARN  acs             1 of 2 bridges send copies between GPUs through the processor: 0000:30:01.0
                      -> turn ACS off in the firmware, or after each boot: setpci -s 0000:30:01.0
                         ECAP_ACS+0x6.w=0000; a virtual machine's stays on
FAIL  p2p             bytes come wrong: 0 to 1
                      GB/s        0       1
                          0       -    42.0
                          1    41.0       -
                      -> set NCCL_P2P_DISABLE=1 until that is mended; see iommu and acs
OK    cuda runtime    13.0 (libcudart.so.13)
FAIL  cudnn           9.19.0 (libcudnn.so.9) needs CUDA 14.0; the driver serves 13.0
                         (cudaErrorInsufficientDriver)
                      -> update NVIDIA's driver, or install the version for CUDA 13
OK    nccl            2.28.9 (libnccl.so.2)
14 ok, 10 warnings, 2 failures, 1 skipped
)");
}

TEST(FindingsTextTest, OfAHostWithoutAGpu) {
  MadeHost made;
  made.TakeLibraries();
  const std::string text = TextOfHost(made);
  EXPECT_THAT(text, testing::HasSubstr("SKIP  driver          no GPU on this machine\n"));
  EXPECT_THAT(text, testing::EndsWith("\n13 ok, 0 warnings, 0 failures, 11 skipped\n"));
}

TEST(FindingsJsonTest, HasWhatTheTextHas) {
  const Findings findings = {
      {.verdict = Verdict::kWarn,
       .what = "p2p",
       .found = "slow",
       .mend = "turn it off",
       .details = {"0 1", "1 0"},
       .numbers = {{"0_to_1_bytes_per_second", 4.5e9}}},
      Failed("driver", "hangs", "reboot"),
      Fine("cores", "2"),
      Skipped("acs", "no GPU"),
      Skipped("bad", "\xff"),  // no UTF-8, as a file's name may be
  };
  const auto json = nlohmann::json::parse(FindingsJson(findings));
  EXPECT_EQ(json["ok"], 1);
  EXPECT_EQ(json["warnings"], 1);
  EXPECT_EQ(json["failures"], 1);
  EXPECT_EQ(json["skipped"], 2);
  ASSERT_EQ(json["checks"].size(), 5U);
  const auto& first = json["checks"][0];
  EXPECT_EQ(first["verdict"], "WARN");
  EXPECT_EQ(first["check"], "p2p");
  EXPECT_EQ(first["finding"], "slow");
  EXPECT_EQ(first["mend"], "turn it off");
  EXPECT_EQ(first["details"], (std::vector<std::string>{"0 1", "1 0"}));
  EXPECT_EQ(first["numbers"]["0_to_1_bytes_per_second"], 4.5e9);
  EXPECT_EQ(json["checks"][1]["verdict"], "FAIL");
  EXPECT_EQ(json["checks"][2]["verdict"], "OK");
  EXPECT_EQ(json["checks"][2]["numbers"].size(), 0U);
  EXPECT_EQ(json["checks"][3]["verdict"], "SKIP");
}

TEST(GpuReportTest, ComesBackFromItsJson) {
  MadeHost made;
  made.AddGpus();
  GpuReport report = made.host.gpus;
  report.end = {.doing = "cuInit", .silent_seconds = 2.5, .signal = 9};
  const auto read = GpuReportOfJson(ToJson(report));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read), ToJson(report));
  EXPECT_EQ(read->devices[1].to_host, 53e9);
  EXPECT_EQ(read->pairs[1].from, 1);
  EXPECT_EQ(read->end.doing, "cuInit");
  EXPECT_TRUE(absl::IsDataLoss(GpuReportOfJson("{\"dri").status()));
  EXPECT_TRUE(absl::IsDataLoss(LibrariesReportOfJson("").status()));
}

}  // namespace
}  // namespace millrace::cli::doctor
