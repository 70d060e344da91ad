#include "readers/quarantine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/open_file.h"

// Lines are appended by one write each time, under the file's lock, and a write that fails is taken
// back. So a line without an end is always the last, and of a process that was killed.

namespace millrace::readers {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

void AppendQuoted(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

std::optional<RecordErrorReason> ReasonOf(std::string_view name) {
  constexpr int32_t kMost = 64;  // reasons there can be
  for (int32_t number = 0; number < kMost; ++number) {
    const auto reason = static_cast<RecordErrorReason>(number);
    if (RecordErrorReasonName(reason) == name) return reason;
  }
  return std::nullopt;
}

// Reads one flat object of strings and whole numbers.
class LineParser {
 public:
  explicit LineParser(std::string_view text) : text_(text) {}

  absl::StatusOr<RecordError> Parse() {
    RecordError error;
    Expect('{');
    do {
      const std::string key = String();
      Expect(':');
      if (ok_) Member(key, &error);
    } while (ok_ && Skip(','));
    Expect('}');
    Space();
    if (ok_ && at_ != text_.size()) Fail("text behind the object");
    if (ok_ && (error.file.empty() || error.ordinal < 0)) Fail("no file or no ordinal");
    if (!ok_) return absl::InvalidArgumentError(what_);
    return error;
  }

 private:
  void Member(const std::string& key, RecordError* error) {
    if (key == "file") {
      error->file = String();
    } else if (key == "reason") {
      const std::string name = String();
      const std::optional<RecordErrorReason> reason = ReasonOf(name);
      if (ok_ && !reason) Fail(absl::StrCat("no reason is called \"", name, "\""));
      error->reason = reason.value_or(RecordErrorReason::kUnknown);
    } else if (key == "offset") {
      error->offset = Number();
    } else if (key == "ordinal") {
      error->ordinal = Number();
    } else if (key == "position") {
      error->position = Number();
    } else {
      Fail(absl::StrCat("an unknown member \"", key, "\""));
    }
  }

  void Fail(std::string what) {
    if (ok_) what_ = absl::StrCat("column ", at_ + 1, ": ", what);
    ok_ = false;
  }
  void Space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool Skip(char c) {
    Space();
    const bool there = at_ < text_.size() && text_[at_] == c;
    if (there) ++at_;
    return there;
  }
  void Expect(char c) {
    if (ok_ && !Skip(c)) Fail(absl::StrCat("'", std::string(1, c), "' is missing"));
  }

  int64_t Number() {
    Space();
    const size_t begin = at_;
    while (at_ < text_.size() && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9'))) {
      ++at_;
    }
    int64_t number = 0;
    if (!absl::SimpleAtoi(ToAbsl(text_.substr(begin, at_ - begin)), &number)) {
      Fail("a whole number is missing");
    }
    return number;
  }

  std::string String() {
    std::string text;
    Expect('"');
    while (ok_ && at_ < text_.size() && text_[at_] != '"') {
      const char c = text_[at_++];
      text.push_back(c == '\\' ? Escaped() : c);
    }
    Expect('"');
    return text;
  }
  // Reads an escape of a quoted string behind its backslash, of those that QuarantineLine writes.
  char Escaped() {
    if (at_ >= text_.size()) return 0;
    const char c = text_[at_++];
    if (c == '"' || c == '\\' || c == '/') return c;
    unsigned code = 0;
    if (c == 'u' && text_.size() - at_ >= 4 &&
        absl::SimpleHexAtoi(ToAbsl(text_.substr(at_, 4)), &code) && code < 0x80) {
      at_ += 4;
      return static_cast<char>(code);
    }
    Fail("an escape that quarantines do not have");
    return 0;
  }

  const std::string_view text_;
  size_t at_ = 0;
  bool ok_ = true;
  std::string what_;
};

// By number alone a record is not known: with a .idx another one has it.
std::string KeyOf(const RecordError& error) {
  return absl::StrCat(error.ordinal, "@", error.offset, ":", error.file);
}

// Calls `visit(error)` for every whole line of a file; returns the line that a kill tore, or "".
template <typename Visit>
absl::StatusOr<std::string_view> VisitLines(const std::string& path, std::string_view text,
                                            const Visit& visit) {
  for (int64_t line = 1; !text.empty(); ++line) {
    const std::string_view rest = text;
    const std::string_view object = TakeLine(text);
    const absl::StatusOr<RecordError> error = ParseQuarantineLine(object);
    if (!error.ok() && object.size() == rest.size()) return rest;  // it has no end
    if (!error.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", line, ": ", error.status().message()));
    }
    visit(*error);
  }
  return text;
}

bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

// The lock of a file as long as this lives. File systems without locks go without.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() { ::flock(fd_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int fd_;
};

}  // namespace

std::string QuarantineLine(const RecordError& error) {
  std::string line = "{\"file\": ";
  AppendQuoted(error.file, &line);
  absl::StrAppend(&line, ", \"offset\": ", error.offset, ", \"ordinal\": ", error.ordinal,
                  ", \"position\": ", error.position, ", \"reason\": \"",
                  ToAbsl(RecordErrorReasonName(error.reason)), "\"}\n");
  return line;
}

absl::StatusOr<RecordError> ParseQuarantineLine(std::string_view line) {
  return LineParser(line).Parse();
}

absl::StatusOr<std::vector<RecordError>> ReadQuarantine(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxBytes));
  std::vector<RecordError> errors;
  std::unordered_set<std::string> known;
  const auto visit = [&](const RecordError& error) {
    if (known.insert(KeyOf(error)).second) errors.push_back(error);
  };
  MILLRACE_RETURN_IF_ERROR(VisitLines(path, text, visit).status());
  return errors;
}

absl::StatusOr<std::unique_ptr<QuarantineLog>> QuarantineLog::Open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd.valid()) return CannotCreate(errno, path);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return ErrnoStatus(errno, "fstat", path);
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  std::unique_ptr<QuarantineLog> log(new QuarantineLog(std::move(fd), path));
  MILLRACE_RETURN_IF_ERROR(log->Begin());
  return log;
}

absl::Status QuarantineLog::Begin() {
  const FileLock lock(fd_.get());
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path_, kMaxBytes));
  MILLRACE_ASSIGN_OR_RETURN(
      const std::string_view torn,
      VisitLines(path_, text, [this](const RecordError& error) { known_.insert(KeyOf(error)); }));
  if (!torn.empty()) return EndOfLines().status();
  if (text.empty() || IsLineEnd(text.back())) return absl::OkStatus();
  return WriteFully(fd_.get(), std::as_bytes(std::span("\n", 1)), path_, {});
}

absl::Status QuarantineLog::Add(std::span<const RecordError> errors) {
  std::string lines;
  std::vector<std::string> keys;
  for (const RecordError& error : errors) {
    std::string key = KeyOf(error);
    if (known_.contains(key)) continue;
    lines += QuarantineLine(error);
    known_.insert(key);
    keys.push_back(std::move(key));
  }
  if (lines.empty()) return absl::OkStatus();
  const FileLock lock(fd_.get());
  const absl::StatusOr<off_t> end = EndOfLines();
  absl::Status status = end.status();
  if (status.ok()) status = WriteFully(fd_.get(), std::as_bytes(std::span(lines)), path_, {});
  if (status.ok()) return status;
  for (const std::string& key : keys) known_.erase(key);
  // Half a line is cut off here, or else by the process that appends next.
  if (end.ok()) static_cast<void>(::ftruncate(fd_.get(), *end) == 0);
  return status;
}

// Where the last whole line ends; a rest that another process left behind it when it was killed is
// cut off.
absl::StatusOr<off_t> QuarantineLog::EndOfLines() {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "fstat", path_);
  off_t end = info.st_size;
  for (char last = 0; end > 0; --end) {
    if (::pread(fd_.get(), &last, 1, end - 1) != 1) return ErrnoStatus(errno, "pread", path_);
    if (IsLineEnd(last)) break;
  }
  if (end == info.st_size || ::ftruncate(fd_.get(), end) == 0) return end;
  return ErrnoStatus(errno, "ftruncate", path_);
}

}  // namespace millrace::readers
