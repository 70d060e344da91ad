#include "trainer/telemetry/event_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "readers/record_writer.h"
#include "trainer/telemetry/telemetry.pb.h"

namespace millrace::trainer {
namespace {

constexpr int kMostTries = 1000;
constexpr size_t kMaxHostBytes = 256;

double SecondsSince1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string HostName() {
  char name[kMaxHostBytes] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

// "FOLDER/events.out.tfevents.1764226069.node1.4711.0": TensorBoard reads the files of a folder in
// the order of their names.
std::string PathOf(const std::string& folder, int number) {
  return absl::StrCat(
      folder, "/",
      absl::StrFormat("events.out.tfevents.%010d.%s.%d.%d",
                      static_cast<int64_t>(SecondsSince1970()), HostName(), ::getpid(), number));
}

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? ErrnoStatus(error.value(), "make the folder", folder) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventWriter>> EventWriter::Open(const std::string& folder,
                                                               uint64_t first_step,
                                                               WriteFunction write) {
  MILLRACE_RETURN_IF_ERROR(MakeFolder(folder));
  std::string path;
  UniqueFd fd;
  for (int i = 0; i < kMostTries && !fd.valid(); ++i) {
    path = PathOf(folder, i);
    fd = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!fd.valid() && errno != EEXIST) return CannotCreate(errno, path);
  }
  if (!fd.valid()) return CannotCreate(EEXIST, path);
  std::unique_ptr<EventWriter> writer(
      new EventWriter(std::move(path), std::move(fd), std::move(write)));
  events::Event version;
  version.set_file_version("brain.Event:2");
  MILLRACE_RETURN_IF_ERROR(writer->Append(version));
  events::Event start;
  start.set_step(static_cast<int64_t>(first_step));
  start.mutable_session_log()->set_status(events::SessionLog::START);
  MILLRACE_RETURN_IF_ERROR(writer->Append(start));
  return writer;
}

absl::Status EventWriter::Write(uint64_t step, std::span<const Scalar> scalars) {
  events::Event event;
  event.set_step(static_cast<int64_t>(step));
  for (const Scalar& scalar : scalars) {
    events::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(std::string(scalar.tag));
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  return Append(event);
}

absl::Status EventWriter::Append(events::Event& event) {
  event.set_wall_time(SecondsSince1970());
  const std::string framed = readers::FramedTfRecord(event.SerializeAsString());
  return WriteFully(fd_.get(), std::as_bytes(std::span(framed)), path_, write_);
}

}  // namespace millrace::trainer
