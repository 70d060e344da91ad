#ifndef MILLRACE_PIPELINE_TEXT_PROTO_H_
#define MILLRACE_PIPELINE_TEXT_PROTO_H_

#include <map>
#include <memory>
#include <optional>
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

// One step down into a message: a field, and the index within a repeated field (-1: not repeated).
struct FieldStep {
  std::string_view field;
  int index = -1;
};

// The places of the fields of a parsed message in its file. Immutable, thread-safe, cheap to copy.
class TextLocations {
 public:
  struct Data;
  TextLocations() = default;
  explicit TextLocations(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

  // Returns "FILE:LINE:COLUMN" of the field at the end of `path`, or of the last field of the path
  // that the text has; only the file if it has none.
  std::string At(std::span<const FieldStep> path) const;
  std::string At(std::initializer_list<FieldStep> path) const {
    return At(std::span<const FieldStep>(path.begin(), path.size()));
  }
  // Returns the byte of the text, with its variables filled in, at which the name of the field at
  // the end of `path` begins; nullopt: the text does not have the field.
  std::optional<size_t> Find(std::span<const FieldStep> path) const;
  // Returns true if a value that was given to a variable begins among the first `max_offset` + 1
  // bytes of the string at the end of `path`, of which `index` counts the elements of a repeated
  // field.
  bool IsGiven(std::span<const FieldStep> path, size_t max_offset) const;

 private:
  std::shared_ptr<const Data> data_;
};

// Parses `text` into `message`, and replaces its content; `origin` is the file's name in messages.
// If `used` is null, a variable that the text does not name is an error. Otherwise the names in the
// text are added to `used`, for a caller that gives the same variables to several files.
//   value             the places of the fields
//   INVALID_ARGUMENT  the first few errors, one per line; `message` is in no useful state
absl::StatusOr<TextLocations> ParseTextProto(std::string_view text, const std::string& origin,
                                             const std::map<std::string, std::string>& variables,
                                             google::protobuf::Message* message,
                                             std::set<std::string>* used = nullptr);

// Parses a file of at most kMaxTextProtoBytes in the same way. Blocks on the file.
//   NOT_FOUND, PERMISSION_DENIED, ...  the file cannot be read
absl::StatusOr<TextLocations> LoadTextProto(const std::string& path,
                                            const std::map<std::string, std::string>& variables,
                                            google::protobuf::Message* message,
                                            std::set<std::string>* used = nullptr);

// The text of a file as it is parsed: without its byte order mark and with "\n" where "\r" alone
// ends a line, as comments go on to the next "\n". No other byte moves.
std::string NormalizedText(std::string_view file);

// The variables that a text names.
struct NamedVariables {
  std::set<std::string> all;
  std::set<std::string> without_value;  // those without a default that are given none
};

// Finds the variables that a file names. Blocks on the file.
//   NOT_FOUND, PERMISSION_DENIED, ...  the file cannot be read
absl::StatusOr<NamedVariables> VariablesOf(const std::string& path,
                                           const std::map<std::string, std::string>& variables);

// Checks that all variables are in `used`.
//   INVALID_ARGUMENT  one is not; the message has its name and the nearest name in `used`
absl::Status CheckVariablesUsed(const std::map<std::string, std::string>& variables,
                                const std::set<std::string>& used);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_TEXT_PROTO_H_
