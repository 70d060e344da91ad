// Bandwidths are those of copies between page-locked memory and a device, or two devices, four
// under way at once, so that the gaps between them do not count. A copy between two devices is also
// checked: a path that is broken (an IOMMU in its way, say) may lose bytes without an error.

#include "cli/doctor/gpu_probe.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/doctor/host.h"
#include "pipeline/cuda_probe.h"

namespace millrace::cli::doctor {
namespace {

using pipeline::CudaCopier;

constexpr int kCopiesAtOnce = 4;
// No report comes meanwhile, and a child that is silent for long is taken for one that hangs.
constexpr double kMostSeconds = 1;

// Bytes that no other pair of devices has.
void Fill(std::span<std::byte> bytes, int from, int to) {
  auto word = static_cast<uint32_t>(from * 64 + to + 1);
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(sizeof(word), bytes.size()))) {
    word = word * 1664525 + 1013904223;  // Numerical Recipes' generator
    std::memcpy(bytes.data(), &word, std::min(sizeof(word), bytes.size()));
  }
}

class GpuProbe {
 public:
  GpuProbe(const GpuProbeOptions& options, const std::function<void(const GpuReport&)>& send)
      : options_(options), send_(send) {}

  void Run() {
    if (AskDriver()) {
      AskDevices();
      MeasureDevices();
      MeasurePairs();
    }
    copiers_.clear();
    Doing("");
  }

 private:
  void Doing(std::string what) {
    report_.end.doing = std::move(what);
    send_(report_);
  }
  int num_devices() const { return static_cast<int>(report_.devices.size()); }
  DeviceReport& device(int ordinal) { return report_.devices[static_cast<size_t>(ordinal)]; }
  CudaCopier* copier(int ordinal) { return copiers_[static_cast<size_t>(ordinal)].get(); }

  static double SliceOf(double seconds, int parts) {
    return std::min(kMostSeconds, seconds / std::max(1, parts));
  }

  // True if there is a driver.
  bool AskDriver() {
    Doing("loading the driver and cuInit");
    const auto facts = pipeline::LoadCudaDriver();
    if (!facts.ok()) {
      report_.error = std::string(facts.status().message());
      return false;
    }
    report_.driver = facts->library;
    report_.driver_version = facts->version;
    report_.devices.resize(static_cast<size_t>(facts->num_devices));
    return true;
  }

  void AskDevices() {
    for (int ordinal = 0; ordinal < num_devices(); ++ordinal) {
      Doing(absl::StrCat("asking for the name and size of GPU ", ordinal));
      const auto facts = pipeline::CudaDeviceFactsOf(ordinal);
      DeviceReport& report = device(ordinal);
      if (!facts.ok()) {
        report.error = std::string(facts.status().message());
        continue;
      }
      report.name = facts->name;
      report.memory_bytes = facts->memory_bytes;
      report.capability = facts->capability;
      report.pci_address = facts->pci_address;
    }
  }

  void MeasureDevices() {
    copiers_.resize(report_.devices.size());
    const double seconds = SliceOf(options_.copy_seconds / 4, num_devices());
    for (int ordinal = 0; ordinal < num_devices(); ++ordinal) {
      const absl::Status status = MeasureDevice(ordinal, seconds);
      if (!status.ok()) device(ordinal).error = std::string(status.message());
    }
  }

  absl::Status MeasureDevice(int ordinal, double seconds) {
    Doing(absl::StrCat("making a context on GPU ", ordinal));
    MILLRACE_ASSIGN_OR_RETURN(copiers_[static_cast<size_t>(ordinal)],
                              pipeline::MakeCudaCopier(ordinal, options_.copy_bytes));
    CudaCopier& copies = *copier(ordinal);
    Doing(absl::StrCat("copying to GPU ", ordinal));
    const auto look = [this, ordinal] { LookAtLink(device(ordinal)); };
    MILLRACE_ASSIGN_OR_RETURN(
        device(ordinal).to_device,
        RateOf(
            copies, [&copies] { return copies.BeginToDevice(); }, seconds, look));
    Doing(absl::StrCat("copying from GPU ", ordinal));
    MILLRACE_ASSIGN_OR_RETURN(
        device(ordinal).to_host,
        RateOf(
            copies, [&copies] { return copies.BeginToHost(); }, seconds, [] {}));
    return absl::OkStatus();
  }

  // A link that is idle may save power at a lower speed: `amid` is called during copies.
  template <typename Begin, typename Amid>
  absl::StatusOr<double> RateOf(CudaCopier& copies, const Begin& begin, double seconds,
                                const Amid& amid) {
    MILLRACE_RETURN_IF_ERROR(begin());
    MILLRACE_RETURN_IF_ERROR(copies.Wait());
    const auto start = options_.now();
    double bytes = 0;
    while (true) {
      for (int copy = 0; copy < kCopiesAtOnce; ++copy) MILLRACE_RETURN_IF_ERROR(begin());
      amid();
      MILLRACE_RETURN_IF_ERROR(copies.Wait());
      bytes += static_cast<double>(kCopiesAtOnce * options_.copy_bytes);
      const double passed = std::chrono::duration<double>(options_.now() - start).count();
      if (passed > 0 && passed >= seconds) return bytes / passed;
    }
  }

  void LookAtLink(DeviceReport& report) const {
    if (report.pci_address.empty() || !report.link_speed.empty()) return;
    const Host host{.root = options_.root};
    const std::string folder = "/sys/bus/pci/devices/" + report.pci_address;
    report.link_speed = LineOf(host, folder + "/current_link_speed");
    report.link_width = LineOf(host, folder + "/current_link_width");
  }

  void MeasurePairs() {
    const int num_pairs = num_devices() * (num_devices() - 1);
    const double seconds = SliceOf(options_.copy_seconds / 2, num_pairs);
    for (int from = 0; from < num_devices(); ++from) {
      for (int to = 0; to < num_devices(); ++to) {
        if (from == to || copier(from) == nullptr || copier(to) == nullptr) continue;
        PairReport pair{.from = from, .to = to};
        const absl::Status status = MeasurePair(pair, seconds);
        if (!status.ok()) pair.error = std::string(status.message());
        report_.pairs.push_back(std::move(pair));
      }
    }
  }

  absl::Status MeasurePair(PairReport& pair, double seconds) {
    CudaCopier& source = *copier(pair.from);
    CudaCopier& target = *copier(pair.to);
    Doing(absl::StrCat("copying from GPU ", pair.from, " to GPU ", pair.to));
    MILLRACE_ASSIGN_OR_RETURN(const bool is_direct,
                              pipeline::CudaPeersAreDirect(pair.from, pair.to));
    pair.direct = is_direct ? 1 : 0;
    if (is_direct) MILLRACE_RETURN_IF_ERROR(source.AllowPeer(target));
    MILLRACE_ASSIGN_OR_RETURN(const bool is_right, CopiesRight(source, target, pair));
    pair.right = is_right ? 1 : 0;
    MILLRACE_ASSIGN_OR_RETURN(
        pair.bytes_per_second,
        RateOf(
            source, [&] { return source.BeginToPeer(target); }, seconds, [] {}));
    return absl::OkStatus();
  }

  // True if the bytes of one device come to the other as they were.
  static absl::StatusOr<bool> CopiesRight(CudaCopier& source, CudaCopier& target,
                                          const PairReport& pair) {
    Fill(source.host(), pair.from, pair.to);
    std::ranges::fill(target.host(), std::byte{0});
    MILLRACE_RETURN_IF_ERROR(target.BeginToDevice());
    MILLRACE_RETURN_IF_ERROR(target.Wait());
    MILLRACE_RETURN_IF_ERROR(source.BeginToDevice());
    MILLRACE_RETURN_IF_ERROR(source.BeginToPeer(target));
    MILLRACE_RETURN_IF_ERROR(source.Wait());
    MILLRACE_RETURN_IF_ERROR(target.BeginToHost());
    MILLRACE_RETURN_IF_ERROR(target.Wait());
    const std::span<const std::byte> sent = source.host();
    return std::memcmp(sent.data(), target.host().data(), sent.size()) == 0;
  }

  const GpuProbeOptions& options_;
  const std::function<void(const GpuReport&)>& send_;
  GpuReport report_;
  std::vector<std::unique_ptr<CudaCopier>> copiers_;  // by ordinal; null: it could not be made
};

}  // namespace

void ProbeGpus(const GpuProbeOptions& options, const std::function<void(const GpuReport&)>& send) {
  GpuProbe(options, send).Run();
}

}  // namespace millrace::cli::doctor
