#ifndef MILLRACE_BASE_CHROME_TRACE_H_
#define MILLRACE_BASE_CHROME_TRACE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

// Files for chrome://tracing and Perfetto: the "JSON Object Format" of Google's Trace Event Format.

namespace millrace {

// The text before the first event of a file, and behind the last one.
inline constexpr std::string_view kChromeTraceBegin =
    "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
    "{\"ph\": \"M\", \"name\": \"trace\", \"pid\": 0, \"args\": {\"by\": \"millrace\"}}";
inline constexpr std::string_view kChromeTraceEnd = "\n]}\n";

// Text of events. A process of the picture has threads, which are its lines. Times are in
// nanoseconds, of one clock for a file. A value type.
class ChromeEvents {
 public:
  void NameProcess(int process, std::string_view name);
  void NameThread(int process, int thread, std::string_view name);
  // A time from `begin_ns` to `end_ns`, or an instant if they are equal. `args` are members of a
  // JSON object: `"step": 3, "bucket": 1`; empty: none.
  void Add(int process, int thread, std::string_view name, int64_t begin_ns, int64_t end_ns,
           std::string_view args);
  // A number that has this value from now on.
  void Count(int process, std::string_view name, int64_t at_ns, int64_t value);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// `text` in quotes, as a JSON string. Bytes that JSON cannot hold are shown in words.
std::string JsonString(std::string_view text);

// Writes a file of the events of all `texts`, which appears when it is whole.
//   UNKNOWN etc.  the file cannot be written (errno's code and text)
absl::Status WriteChromeTrace(const std::string& path, std::span<const std::string> texts);

}  // namespace millrace

#endif  // MILLRACE_BASE_CHROME_TRACE_H_
