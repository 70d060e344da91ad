#ifndef MILLRACE_CLI_EMULATE_LIVE_RUN_H_
#define MILLRACE_CLI_EMULATE_LIVE_RUN_H_

#include <chrono>
#include <memory>
#include <optional>

#include "base/host_use.h"
#include "cli/emulate/run_stream.h"
#include "cli/live/live_server.h"
#include "cli/live/snapshot.h"
#include "cli/top/inline_top.h"
#include "pipeline/diagnosis.h"

namespace millrace::cli {

// The figures of a `millrace run`, as long as it lives: for `millrace top`, and on standard error
// with --top. Thread-compatible.
class LiveRun {
 public:
  // Both outlive it.
  LiveRun(const RunFlags& flags, const RunStream& stream);
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

 private:
  Snapshot Look() const;
  Tracer MakeTracer() const;

  const RunFlags& flags_;
  const RunStream& stream_;
  const pipeline::DiagnosisOptions options_;
  const HostUse host_ = ReadHostUse();  // at the beginning
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<LiveServer> server_;
  std::optional<InlineTop> top_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_LIVE_RUN_H_
