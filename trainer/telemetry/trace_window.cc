#include "trainer/telemetry/trace_window.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/chrome_trace.h"
#include "base/status.h"
#include "collectives/gather_texts.h"
#include "pipeline/trace.h"

namespace millrace::trainer {

TraceWindow::TraceWindow(TraceOptions options, pipeline::Pipeline& pipeline,
                         collectives::Timeline& timeline)
    : options_(std::move(options)),
      end_(std::chrono::steady_clock::now() + options_.time),
      pipeline_(pipeline),
      timeline_(timeline) {}

absl::Status TraceWindow::Write(collectives::Communicator& communicator) {
  written_ = true;
  const pipeline::PipelineTrace trace = pipeline_.TakeTrace();
  if (!options_.keeps_timeline) timeline_.Stop();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t offset, collectives::ClockOffset(communicator));
  ChromeEvents events;
  collectives::AddTimeline(communicator.rank(), timeline_, offset, events);
  pipeline::AddTrace(trace, communicator.rank(), offset, events);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            collectives::GatherTexts(communicator, events.text()));
  if (communicator.rank() != 0) return absl::OkStatus();
  const absl::Status written = WriteChromeTrace(options_.path, texts);
  // A full disk is no reason to end a training.
  if (!written.ok() && options_.warn) {
    options_.warn(absl::StrCat("no trace: ", written.message()));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
