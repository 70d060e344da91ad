#ifndef MILLRACE_CLI_LIVE_TRACER_H_
#define MILLRACE_CLI_LIVE_TRACER_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/chrome_trace.h"
#include "pipeline/trace.h"

// A trace that a client asks a running program for.

namespace millrace::cli {

// Both are called on the server's thread, one after the other; or they are empty, and there is no
// trace.
struct Tracer {
  std::function<void()> begin;
  std::function<std::string()> end;  // returns the text of a file (TraceText)
};

// The line that asks for a trace of so many seconds.
std::string TraceRequest(double seconds);
// The time that a line asks for, if it is such a line: 0.01 to 60 seconds.
std::optional<std::chrono::nanoseconds> TraceTimeOf(std::string_view line);

// Adds a rank's trace as a process of the picture.
void AddRankTrace(int rank, const pipeline::PipelineTrace& trace, ChromeEvents& events);
// The text of a file with these events.
std::string TraceText(const ChromeEvents& events);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_TRACER_H_
