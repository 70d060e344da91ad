#ifndef MILLRACE_PIPELINE_TEXT_PROTO_H_
#define MILLRACE_PIPELINE_TEXT_PROTO_H_

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace google::protobuf {
class Message;
}

// Protobuf text files as users write them: with variables, and with errors that name the place
// ("FILE:LINE:COLUMN: ...", from 1) and the nearest name. Used for plans, and by the trainer for
// jobs and models. Not installed.

namespace millrace::pipeline {

inline constexpr size_t kMaxTextProtoBytes = 16 << 20;

// One step down into a message: a field, and which one of a repeated field (else -1).
struct FieldStep {
  std::string_view field;
  int index = -1;
};

// Where the fields of a parsed message stand in its file. Immutable, thread-safe, cheap to copy.
class TextLocations {
 public:
  struct Data;
  TextLocations() = default;
  explicit TextLocations(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

  // Returns "FILE:LINE:COLUMN" of the field at the end of `path`; when the text does not have it,
  // of the last one on the way that it has; the file alone when there is none.
  std::string At(std::span<const FieldStep> path) const;
  std::string At(std::initializer_list<FieldStep> path) const {
    return At(std::span<const FieldStep>(path.begin(), path.size()));
  }

 private:
  std::shared_ptr<const Data> data_;
};

// Parses `text` into `message`, replacing what it held; `origin` is the file's name in messages.
// With `used` null, a variable that the text does not name is an error; otherwise the names that it
// has are added to `used`, for a caller who gives the same variables to several files.
//   value             where the fields stand
//   INVALID_ARGUMENT  the errors, one per line (the first few); `message` is in no useful state
absl::StatusOr<TextLocations> ParseTextProto(std::string_view text, const std::string& origin,
                                             const std::map<std::string, std::string>& variables,
                                             google::protobuf::Message* message,
                                             std::set<std::string>* used = nullptr);

// The same from a file of at most kMaxTextProtoBytes. Blocks on the file.
//   NOT_FOUND, PERMISSION_DENIED, ...  it cannot be read
absl::StatusOr<TextLocations> LoadTextProto(const std::string& path,
                                            const std::map<std::string, std::string>& variables,
                                            google::protobuf::Message* message,
                                            std::set<std::string>* used = nullptr);

// INVALID_ARGUMENT that names the first variable missing from `used` and the nearest name in it.
absl::Status CheckVariablesUsed(const std::map<std::string, std::string>& variables,
                                const std::set<std::string>& used);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_TEXT_PROTO_H_
