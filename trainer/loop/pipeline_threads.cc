#include "trainer/loop/pipeline_threads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace::trainer {
namespace {

constexpr int kWindowsToTry = 2;     // starving ones, before a trial
constexpr size_t kTrialWindows = 4;  // A B B A

std::string GainText(double gain) { return absl::StrFormat("%+.0f %%", 100 * gain); }

}  // namespace

PipelineThreads::PipelineThreads(int first, int most, const ThreadTrialOptions& options)
    : first_(first),
      most_(most),
      options_(options),
      settled_(first),
      next_hold_(options.first_hold) {}

int PipelineThreads::AddStep(double seconds, double wait_seconds) {
  if (is_fixed()) return settled_;
  ++window_.steps;
  window_.seconds += seconds;
  window_.wait_seconds += wait_seconds;
  if (settles_) {
    if (!IsLong(window_, options_.settle_steps, options_.settle_seconds)) return limit();
    settles_ = false;
    window_ = {};
  } else if (IsLong(window_, options_.window_steps, options_.window_seconds)) {
    const int before = limit();
    EndWindow(std::exchange(window_, {}));
    settles_ = limit() != before;
  }
  return limit();
}

bool PipelineThreads::IsLong(const Window& window, int steps, double seconds) const {
  return window.steps >= steps && window.seconds >= seconds && window.seconds > 0;
}

void PipelineThreads::EndWindow(const Window& window) {
  if (rates_.empty()) Watch(window);
  // The window that begins a trial is its first.
  if (rates_.empty() && starving_ < kWindowsToTry) return;
  rates_.push_back(window.steps / window.seconds);
  if (rates_.size() == kTrialWindows) EndTrial();
}

// Counts the window in `starving_` if a trial may follow it.
void PipelineThreads::Watch(const Window& window) {
  if (settled_ >= most_) return;
  if (hold_ > 0) {
    --hold_;
    return;
  }
  starving_ = window.wait_seconds >= options_.starving * window.seconds ? starving_ + 1 : 0;
  has_starved_ |= starving_ >= kWindowsToTry;
}

void PipelineThreads::EndTrial() {
  const double gains[] = {rates_[1] / rates_[0] - 1, rates_[2] / rates_[3] - 1};
  const double gain = (gains[0] + gains[1]) / 2;
  rates_.clear();
  starving_ = 0;
  if (std::min(gains[0], gains[1]) >= options_.worthwhile) {
    ++settled_;
    gain_ = (1 + gain_) * (1 + gain) - 1;
    next_hold_ = options_.first_hold;
    refused_.reset();
    return;
  }
  refused_ = {settled_ + 1, gain};
  hold_ = next_hold_;
  next_hold_ = std::min(2 * next_hold_, options_.longest_hold);
}

std::string PipelineThreads::Describe(int cores) const {
  if (is_fixed()) return "";
  return absl::StrCat(first_, " to ", most_, " of ", cores, " cores, settled on ", settled_, " (",
                      Reason(), ")");
}

std::string PipelineThreads::Reason() const {
  std::string text;
  if (settled_ > first_) text = absl::StrCat("steps/s ", GainText(gain_));
  if (refused_.has_value()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", refused_->threads, " threads: steps/s ",
                    GainText(refused_->gain));
  }
  if (!text.empty()) return text;
  return has_starved_ ? absl::StrCat("too few steps to try ", settled_ + 1)
                      : "the trainer did not starve";
}

}  // namespace millrace::trainer
