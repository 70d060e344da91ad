#include "cli/doctor/gpu_report.h"

#include "absl/status/status.h"
#include "cli/live/json_fields.h"

namespace millrace::cli::doctor {

template <typename Archive, Like<ProbeEnd> T>
void Members(Archive& archive, T& end) {
  archive("doing", end.doing);
  archive("silent_seconds", end.silent_seconds);
  archive("signal", end.signal);
}

template <typename Archive, Like<LibraryReport> T>
void Members(Archive& archive, T& library) {
  archive("file", library.file);
  archive("version", library.version);
  archive("cuda", library.cuda);
  archive("elsewhere", library.elsewhere);
  archive("limited", library.limited);
  archive("error", library.error);
}

template <typename Archive, Like<LibrariesReport> T>
void Members(Archive& archive, T& report) {
  archive("runtime", report.runtime);
  archive("cudnn", report.cudnn);
  archive("nccl", report.nccl);
  archive("end", report.end);
}

template <typename Archive, Like<DeviceReport> T>
void Members(Archive& archive, T& device) {
  archive("name", device.name);
  archive("memory_bytes", device.memory_bytes);
  archive("capability", device.capability);
  archive("pci_address", device.pci_address);
  archive("to_device", device.to_device);
  archive("to_host", device.to_host);
  archive("link_speed", device.link_speed);
  archive("link_width", device.link_width);
  archive("error", device.error);
}

template <typename Archive, Like<PairReport> T>
void Members(Archive& archive, T& pair) {
  archive("from", pair.from);
  archive("to", pair.to);
  archive("direct", pair.direct);
  archive("right", pair.right);
  archive("bytes_per_second", pair.bytes_per_second);
  archive("error", pair.error);
}

template <typename Archive, Like<GpuReport> T>
void Members(Archive& archive, T& report) {
  archive("driver", report.driver);
  archive("driver_version", report.driver_version);
  archive("error", report.error);
  archive("devices", report.devices);
  archive("pairs", report.pairs);
  archive("end", report.end);
}

namespace {

template <typename Report>
std::string JsonOf(const Report& report) {
  nlohmann::ordered_json json;
  JsonWriter writer(json);
  Members(writer, report);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

template <typename Report>
absl::StatusOr<Report> OfJson(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("a report is no JSON object");
  Report report;
  JsonReader reader(json);
  Members(reader, report);
  return report;
}

}  // namespace

std::string ToJson(const GpuReport& report) { return JsonOf(report); }
std::string ToJson(const LibrariesReport& report) { return JsonOf(report); }

absl::StatusOr<GpuReport> GpuReportOfJson(std::string_view text) { return OfJson<GpuReport>(text); }
absl::StatusOr<LibrariesReport> LibrariesReportOfJson(std::string_view text) {
  return OfJson<LibrariesReport>(text);
}

}  // namespace millrace::cli::doctor
