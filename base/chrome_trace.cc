#include "base/chrome_trace.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "base/text.h"

namespace millrace {
namespace {

double Microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

std::string JsonString(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : ShownText(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

void ChromeEvents::NameProcess(int process, std::string_view name) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": "
                        "{\"name\": %s}}",
                        process, JsonString(name));
}

void ChromeEvents::NameThread(int process, int thread, std::string_view name) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, "
                        "\"args\": {\"name\": %s}}",
                        process, thread, JsonString(name));
}

void ChromeEvents::Add(int process, int thread, std::string_view name, int64_t begin_ns,
                       int64_t end_ns, std::string_view args) {
  const bool instant = begin_ns == end_ns;
  absl::StrAppendFormat(
      &text_, ",\n{\"name\": %s, \"ph\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f",
      JsonString(name), instant ? "i" : "X", process, thread, Microseconds(begin_ns));
  if (instant) {
    absl::StrAppend(&text_, ", \"s\": \"t\"");
  } else {
    absl::StrAppendFormat(&text_, ", \"dur\": %.3f", Microseconds(end_ns - begin_ns));
  }
  if (!args.empty()) absl::StrAppend(&text_, ", \"args\": {", ToAbsl(args), "}");
  text_ += '}';
}

void ChromeEvents::Count(int process, std::string_view name, int64_t at_ns, int64_t value) {
  absl::StrAppendFormat(&text_,
                        ",\n{\"name\": %s, \"ph\": \"C\", \"pid\": %d, \"ts\": %.3f, \"args\": "
                        "{\"value\": %d}}",
                        JsonString(name), process, Microseconds(at_ns), value);
}

absl::Status WriteChromeTrace(const std::string& path, std::span<const std::string> texts) {
  absl::StatusOr<std::unique_ptr<AtomicFile>> file = AtomicFile::Create(path);
  if (!file.ok()) return Annotate(file.status(), path);
  MILLRACE_RETURN_IF_ERROR((*file)->Append(BytesOf(kChromeTraceBegin)));
  for (const std::string& text : texts) {
    MILLRACE_RETURN_IF_ERROR((*file)->Append(BytesOf(text)));
  }
  MILLRACE_RETURN_IF_ERROR((*file)->Append(BytesOf(kChromeTraceEnd)));
  return (*file)->Commit(/*sync=*/false);
}

}  // namespace millrace
