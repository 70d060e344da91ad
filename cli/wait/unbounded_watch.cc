#include "cli/wait/unbounded_watch.h"

#include <unistd.h>

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/exit.h"
#include "cli/wait/running_time.h"

namespace millrace::cli {
namespace {

// The limit is in whole seconds, so one turn more is a small part of it.
constexpr std::chrono::milliseconds kTurn{100};

}  // namespace

void UnboundedWatch::Tell(std::string_view what) {
  {
    MutexLock lock(mu_);
    waits_ = false;
    over_.NotifyAll();
  }
  thread_ = std::jthread();  // joins the previous thread
  if (what.empty()) return;
  {
    MutexLock lock(mu_);
    waits_ = true;
  }
  std::string text = absl::StrCat(
      ToAbsl(what), " was not over after ", std::chrono::duration<double>(limit_).count(),
      " s (--connect-timeout): it waits for a rank that has not come, is stopped, or cannot be "
      "reached; ranks that do not say this are the ones to look at",
      note_.empty() ? "" : "; ", note_);
  try {
    thread_ = std::jthread([this, text = std::move(text)] { Run(text); });
  } catch (const std::system_error&) {  // the job is not ended for that
  }
}

void UnboundedWatch::Run(const std::string& text) {
  RunningTime waited(RunningTime::Clock::now(), kTurn);
  MutexLock lock(mu_);
  while (waits_) {
    if (waited.Look(RunningTime::Clock::now()) < limit_) {
      over_.WaitFor(mu_, kTurn);
      continue;
    }
    // The thread that waits cannot be ended, nor can its resources be released.
    Fail(absl::DeadlineExceededError(text));
    _exit(exit_code_);
  }
}

}  // namespace millrace::cli
