#include "cli/doctor/doctor.h"

#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/child.h"
#include "cli/doctor/gpu_probe.h"
#include "cli/doctor/libraries.h"

namespace millrace::cli::doctor {
namespace {

constexpr double kDecodingShare = 0.1;
constexpr double kDataShare = 0.4;
constexpr double kCopyShare = 0.4;

ChildWatch WatchOf(const DoctorOptions& options) {
  ChildWatch watch{.gives_up = options.gives_up, .tick = options.tick};
  if (!watch.gives_up) {
    watch.gives_up = [limit = options.gpu_timeout_seconds](std::string_view /*last_line*/,
                                                           double silent_seconds) {
      return silent_seconds >= limit;
    };
  }
  return watch;
}

// The last report of a child that `probe` makes it send, and its end. Without a child, the error is
// in `error`.
template <typename Report, typename Probe>
Report AskInChild(const DoctorOptions& options, const Probe& probe,
                  absl::StatusOr<Report> (*parse)(std::string_view), std::string& error) {
  const auto end = RunInChild(
      [&probe](const std::function<void(std::string_view)>& send) {
        probe([&send](const Report& report) { send(ToJson(report)); });
      },
      WatchOf(options));
  if (!end.ok()) {
    error = std::string(end.status().message());
    return {};
  }
  absl::StatusOr<Report> report = parse(end->last_line);
  if (!report.ok()) report = Report();  // it ended before it sent any
  report->end.silent_seconds = end->silent_seconds;
  report->end.signal = end->signal;
  return *std::move(report);
}

LibrariesReport AskLibraries(const DoctorOptions& options) {
  std::string error;
  auto report = AskInChild<LibrariesReport>(
      options, [](const auto& send) { ProbeLibraries(send); }, &LibrariesReportOfJson, error);
  if (error.empty()) return report;
  for (LibraryReport* library : {&report.runtime, &report.cudnn, &report.nccl}) {
    library->error = error;
  }
  return report;
}

GpuReport AskGpus(const DoctorOptions& options, const std::string& root) {
  const GpuProbeOptions probe{.root = root,
                              .copy_seconds = kCopyShare * options.seconds,
                              .copy_bytes = options.copy_bytes,
                              .now = options.now};
  std::string error;
  auto report = AskInChild<GpuReport>(
      options, [&probe](const auto& send) { ProbeGpus(probe, send); }, &GpuReportOfJson, error);
  if (!error.empty()) report.error = error;
  return report;
}

// The files that the paths name, as far as they name any.
std::vector<std::string> FilesOf(const std::vector<std::string>& data) {
  std::vector<std::string> files;
  for (const std::string& path : data) {
    auto found = DataFilesOf(path);
    if (!found.ok()) continue;  // the check of that path says why
    std::ranges::move(*found, std::back_inserter(files));
  }
  return files;
}

}  // namespace

void Measure(const DoctorOptions& options, Host& host) {
  host.libraries = AskLibraries(options);
  host.gpus = AskGpus(options, host.root);
  host.decoding = MeasureDecodeRate({.files = FilesOf(options.data),
                                     .seconds = kDecodingShare * options.seconds,
                                     .now = options.now,
                                     .tick = options.tick});
  const DiskRateOptions disk{
      .seconds = kDataShare * options.seconds / static_cast<double>(options.data.size()),
      .now = options.now,
      .tick = options.tick};
  for (const std::string& path : options.data) {
    host.disks.push_back(MeasureDiskRate(path, disk));
  }
}

Findings Examine(const Host& host) {
  Findings findings;
  for (const Check check : AllChecks()) {
    std::ranges::move(check(host), std::back_inserter(findings));
  }
  return findings;
}

}  // namespace millrace::cli::doctor
