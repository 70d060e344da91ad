#ifndef MILLRACE_CLI_COMMANDS_LIVE_TRAIN_H_
#define MILLRACE_CLI_COMMANDS_LIVE_TRAIN_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host_use.h"
#include "base/mutex.h"
#include "cli/live/live_server.h"
#include "cli/live/snapshot.h"
#include "cli/top/inline_top.h"
#include "cli/wait/display.h"
#include "trainer/rank_view.h"

namespace millrace::cli {

// The figures of a `millrace train`: of the ranks of this process, for `millrace top`, and on
// standard error with --top. Thread-safe.
class LiveTrain {
 public:
  // `display` outlives it. `writes_trace` is true if the training has a trace of its own.
  LiveTrain(std::string job, bool writes_trace, Display& display)
      : job_(std::move(job)), writes_trace_(writes_trace), display_(display) {}
  ~LiveTrain() { End(); }
  LiveTrain(const LiveTrain&) = delete;
  LiveTrain& operator=(const LiveTrain&) = delete;

  // For TrainOptions::observe.
  void Add(std::shared_ptr<const trainer::RankView> rank);

  // Begins to answer, and on the first process to draw if `on_screen`; that one warns if it cannot
  // answer. Before results are printed, or for good, End stops both. Called by one thread.
  void Begin(bool on_screen, bool is_first);
  void End();

 private:
  Snapshot Look() const;
  Tracer MakeTracer() const;
  void StartTraces() const;
  std::string TakeTraces() const;

  const std::string job_;
  const bool writes_trace_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Display& display_;
  mutable Mutex mu_;
  std::vector<std::shared_ptr<const trainer::RankView>> ranks_ MILLRACE_GUARDED_BY(mu_);
  HostUse host_ MILLRACE_GUARDED_BY(mu_);  // when the newest rank came
  std::unique_ptr<LiveServer> server_;
  std::optional<InlineTop> top_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_COMMANDS_LIVE_TRAIN_H_
