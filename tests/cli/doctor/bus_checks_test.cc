#include <gmock/gmock.h>

#include <string>

#include "cli/doctor/checks.h"
#include "cli/doctor/pci.h"
#include "tests/cli/doctor/made_host.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Gigabytes per second and lane, as PCI-SIG states them for each generation.
TEST(PcieLinkTest, BytesAreThoseOfTheGeneration) {
  const struct {
    const char* speed;
    int generation;
    double bytes;
  } kGenerations[] = {{"2.5 GT/s PCIe", 1, 0.25e9},   {"5.0 GT/s PCIe", 2, 0.5e9},
                      {"8.0 GT/s PCIe", 3, 0.985e9},  {"16.0 GT/s PCIe", 4, 1.969e9},
                      {"32.0 GT/s PCIe", 5, 3.938e9}, {"64.0 GT/s PCIe", 6, 7.563e9}};
  for (const auto& expected : kGenerations) {
    const auto link = LinkOf(expected.speed, "1");
    ASSERT_TRUE(link.has_value()) << expected.speed;
    EXPECT_EQ(link->generation(), expected.generation);
    EXPECT_THAT(link->bytes_per_second(), DoubleNear(expected.bytes, 1e6)) << expected.speed;
  }
  EXPECT_FALSE(LinkOf("Unknown", "16").has_value());
  EXPECT_FALSE(LinkOf("32.0 GT/s PCIe", "255").has_value());
  EXPECT_FALSE(LinkOf("32.0 GT/s PCIe", "").has_value());
}

TEST(PciTest, GpusAndBridgesAreToldByTheirClass) {
  MadeHost made;
  made.AddGpus();
  made.Write("/sys/bus/pci/devices/0000:00:1f.0/class", "0x030000\n");  // another vendor's display
  made.Write("/sys/bus/pci/devices/0000:00:1f.0/vendor", "0x1234\n");
  EXPECT_THAT(NvidiaGpus(made.host), ElementsAre(MadeHost::kFirst, MadeHost::kSecond));
  EXPECT_THAT(PciBridges(made.host), ElementsAre(MadeHost::kFirstPort, MadeHost::kSecondPort));
}

TEST(CheckPcieTest, FullLinksAreFine) {
  MadeHost made;
  made.AddGpus();
  const Findings findings = CheckPcie(made.host);
  EXPECT_EQ(FindingAbout(findings, "pcie 0").found, "gen 5 x16 of gen 5 x16");
  EXPECT_EQ(FindingAbout(findings, "pcie 1").verdict, Verdict::kOk);
}

TEST(CheckPcieTest, ALinkThatIsNarrowAndSlowAmidACopyIsAWarning) {
  MadeHost made;
  made.AddGpus();
  made.SetLink(1, "2.5 GT/s PCIe", "4");
  const Findings findings = CheckPcie(made.host);
  EXPECT_EQ(FindingAbout(findings, "pcie 0").verdict, Verdict::kOk);
  const Finding finding = FindingAbout(findings, "pcie 1");
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_EQ(finding.found, "gen 1 x4 of gen 5 x16");
  EXPECT_THAT(finding.mend, HasSubstr("lspci -vv -s 0000:3b:00.0"));
}

TEST(CheckPcieTest, AnIdleLinkMayBeSlowButNotNarrow) {
  MadeHost made;
  made.AddGpus();
  made.SetLink(0, "2.5 GT/s PCIe", "16");
  made.SetLink(1, "2.5 GT/s PCIe", "8");
  made.host.gpus.devices[0].link_speed.clear();  // nothing was copied
  made.host.gpus.devices[1].link_speed.clear();
  const Findings findings = CheckPcie(made.host);
  EXPECT_EQ(FindingAbout(findings, "pcie 0").verdict, Verdict::kOk);
  EXPECT_THAT(FindingAbout(findings, "pcie 0").found, HasSubstr("an idle link saves power"));
  EXPECT_EQ(FindingAbout(findings, "pcie 1").verdict, Verdict::kWarn);
}

TEST(CheckPcieTest, TheSlotLimitsWhatIsExpected) {
  MadeHost made;
  made.AddGpus();
  made.SetLink(0, "16.0 GT/s PCIe", "8");
  made.WriteOf(MadeHost::kFirstPort, "max_link_speed", "16.0 GT/s PCIe\n");
  made.WriteOf(MadeHost::kFirstPort, "max_link_width", "8\n");
  const Finding finding = FindingAbout(CheckPcie(made.host), "pcie 0");
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_EQ(finding.found, "gen 4 x8 of gen 4 x8");
}

TEST(CheckPcieTest, WithoutADriverTheBusTells) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus = {};
  EXPECT_EQ(FindingAbout(CheckPcie(made.host), "pcie 0000:3a:00.0").verdict, Verdict::kOk);
  made.WriteOf(MadeHost::kFirst, "current_link_speed", "Unknown\n");
  EXPECT_EQ(FindingAbout(CheckPcie(made.host), "pcie 0000:3a:00.0").verdict, Verdict::kSkip);
}

TEST(CheckIommuTest, TranslationStandsBetweenTwoGpus) {
  MadeHost made;
  made.AddGpus();
  EXPECT_EQ(OnlyOf(CheckIommu(made.host)).found, "off");
  made.WriteOf(MadeHost::kFirst, "iommu_group/type", "identity\n");
  EXPECT_EQ(OnlyOf(CheckIommu(made.host)).found, "passes the GPUs' addresses through");
  made.WriteOf(MadeHost::kSecond, "iommu_group/type", "DMA-FQ\n");
  const Finding finding = OnlyOf(CheckIommu(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("translates the addresses of 0000:3b:00.0"));
  EXPECT_THAT(finding.mend, HasSubstr("iommu=pt"));
}

TEST(CheckIommuTest, OneGpuHasNoPeer) {
  MadeHost made;
  made.AddGpus();
  made.host.gpus.devices.resize(1);
  made.WriteOf(MadeHost::kFirst, "iommu_group/type", "DMA\n");
  EXPECT_EQ(OnlyOf(CheckIommu(made.host)).verdict, Verdict::kOk);
}

// Kernels before 5.11.
TEST(CheckIommuTest, WithoutTypesTheCommandLineTells) {
  MadeHost made;
  made.AddGpus();
  made.Write("/sys/class/iommu/dmar0/uevent", "");
  EXPECT_EQ(OnlyOf(CheckIommu(made.host)).verdict, Verdict::kWarn);
  made.Write("/proc/cmdline", "quiet intel_iommu=on iommu=pt\n");
  EXPECT_EQ(OnlyOf(CheckIommu(made.host)).verdict, Verdict::kOk);
}

TEST(CheckAcsTest, ABridgeThatRedirectsIsNamed) {
  MadeHost made;
  made.AddGpus();
  EXPECT_EQ(OnlyOf(CheckAcs(made.host)).verdict, Verdict::kOk);
  made.SetAcs(MadeHost::kSecondPort, 0x1d);
  const Finding finding = OnlyOf(CheckAcs(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("1 of 2 bridges"));
  EXPECT_THAT(finding.mend, HasSubstr("setpci -s 0000:30:02.0 ECAP_ACS+0x6.w=0000"));
  made.SetAcs(MadeHost::kSecondPort, 0x11);  // checks sources, and redirects nothing
  EXPECT_EQ(OnlyOf(CheckAcs(made.host)).verdict, Verdict::kOk);
}

// Without root the first 64 bytes are all.
TEST(CheckAcsTest, ARegisterThatCannotBeReadIsSkippedWithTheCommand) {
  MadeHost made;
  made.AddGpus();
  for (const char* port : {MadeHost::kFirstPort, MadeHost::kSecondPort}) {
    made.WriteOf(port, "config", std::string(64, '\0'));
  }
  const Finding finding = OnlyOf(CheckAcs(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kSkip);
  EXPECT_THAT(finding.mend, HasSubstr("sudo lspci -vvv | grep ACSCtl"));
  made.host.gpus.devices.resize(1);
  EXPECT_EQ(OnlyOf(CheckAcs(made.host)).found, "fewer than two GPUs");
}

// A list of capabilities that goes round in a circle, as damage may have it.
TEST(CheckAcsTest, ACircleOfCapabilitiesEnds) {
  MadeHost made;
  made.AddGpus();
  std::string config(4096, '\0');
  config.replace(0x100, 4, std::string("\x01\x00\x01\x10", 4));
  for (const char* port : {MadeHost::kFirstPort, MadeHost::kSecondPort}) {
    made.WriteOf(port, "config", config);
  }
  EXPECT_EQ(OnlyOf(CheckAcs(made.host)).verdict, Verdict::kSkip);
}

TEST(BusChecksTest, WithoutGpusAllIsSkipped) {
  MadeHost made;
  EXPECT_EQ(OnlyOf(CheckPcie(made.host)).verdict, Verdict::kSkip);
  EXPECT_EQ(OnlyOf(CheckIommu(made.host)).verdict, Verdict::kSkip);
  EXPECT_EQ(OnlyOf(CheckAcs(made.host)).verdict, Verdict::kSkip);
}

}  // namespace
}  // namespace millrace::cli::doctor
