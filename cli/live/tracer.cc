#include "cli/live/tracer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kTrace = "trace ";
constexpr double kLeastSeconds = 0.01;
constexpr double kMostSeconds = 60;

}  // namespace

std::string TraceRequest(double seconds) { return absl::StrCat(ToAbsl(kTrace), seconds, "\n"); }

std::optional<std::chrono::nanoseconds> TraceTimeOf(std::string_view line) {
  double seconds = 0;
  if (!line.starts_with(kTrace)) return std::nullopt;
  line.remove_prefix(kTrace.size());
  if (!absl::SimpleAtod(ToAbsl(line), &seconds) || std::isnan(seconds)) return std::nullopt;
  const std::chrono::duration<double> time(std::clamp(seconds, kLeastSeconds, kMostSeconds));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
}

void AddRankTrace(int rank, const pipeline::PipelineTrace& trace, ChromeEvents& events) {
  events.NameProcess(rank, absl::StrCat("rank ", rank));
  pipeline::AddTrace(trace, rank, /*offset_ns=*/0, events);
}

std::string TraceText(const ChromeEvents& events) {
  return absl::StrCat(ToAbsl(kChromeTraceBegin), events.text(), ToAbsl(kChromeTraceEnd));
}

}  // namespace millrace::cli
