#ifndef MILLRACE_TRAINER_TELEMETRY_EVENT_WRITER_H_
#define MILLRACE_TRAINER_TELEMETRY_EVENT_WRITER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/unique_fd.h"

namespace millrace::trainer {

namespace events {
class Event;  // trainer/telemetry/telemetry.pb.h
}

struct Scalar {
  std::string_view tag;  // "train/loss"
  double value = 0;
};

// Writes a file that TensorBoard shows while it grows: TFRecords of tensorflow.Event. Each call is
// one write, so that readers see whole events. Thread-compatible.
class EventWriter {
 public:
  // Makes a new file in `folder`, which is made where it is missing. `first_step` is the first step
  // that it will have: TensorBoard forgets the values that earlier files have of it and later ones.
  // `write` is for tests; empty: write().
  //   NOT_FOUND, PERMISSION_DENIED, ...  the file cannot be made
  static absl::StatusOr<std::unique_ptr<EventWriter>> Open(const std::string& folder,
                                                           uint64_t first_step,
                                                           WriteFunction write = {});

  // Appends the values that the scalars have at `step`.
  //   RESOURCE_EXHAUSTED, ...  they cannot be written; later calls may fail too
  absl::Status Write(uint64_t step, std::span<const Scalar> scalars);

  const std::string& path() const { return path_; }

 private:
  EventWriter(std::string path, UniqueFd fd, WriteFunction write)
      : path_(std::move(path)), fd_(std::move(fd)), write_(std::move(write)) {}

  // Appends an event of now.
  absl::Status Append(events::Event& event);

  const std::string path_;
  const UniqueFd fd_;
  const WriteFunction write_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_TELEMETRY_EVENT_WRITER_H_
