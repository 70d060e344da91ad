#include "cli/top/inline_top.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include "base/caught.h"
#include "cli/live/without_signals.h"
#include "cli/top/render.h"
#include "cli/top/terminal.h"

namespace millrace::cli {
namespace {

constexpr std::chrono::milliseconds kTerminalTurn{1000};
constexpr std::chrono::milliseconds kPlainTurn{5000};

void Write(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

void OnSignal(int signal_number) {
  (void)!::write(STDERR_FILENO, kClearBelow, sizeof(kClearBelow) - 1);
  std::signal(signal_number, SIG_DFL);
  (void)std::raise(signal_number);
}

}  // namespace

InlineTop::InlineTop(Source source)
    : source_(std::move(source)),
      terminal_(isatty(STDERR_FILENO) == 1),
      turn_(terminal_ ? kTerminalTurn : kPlainTurn),
      history_(std::chrono::duration<double>(turn_).count()) {
  const WithoutSignals without;
  (void)Caught([this] { thread_ = std::thread([this] { (void)Caught([this] { Run(); }); }); });
}

InlineTop::~InlineTop() {
  {
    const MutexLock lock(mu_);
    ends_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  if (terminal_) Write(kClearBelow);
}

void InlineTop::Run() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next = Clock::now();
  while (true) {
    {
      next += turn_;
      MutexLock lock(mu_);
      while (!ends_ && Clock::now() < next) changed_.WaitFor(mu_, next - Clock::now());
      if (ends_) return;
    }
    Snapshot snapshot = source_();
    const MutexLock lock(mu_);
    history_.Add(std::move(snapshot));
    Draw();
  }
}

void InlineTop::Draw() {
  if (history_.empty()) return;
  if (!terminal_) return Write(RenderLine(history_.shown()) + "\n");
  const TerminalSize size = TerminalSizeOf(STDERR_FILENO);
  Write(BelowText(RenderScreen(history_.shown(), size.columns), size));
}

void InlineTop::Above(const std::function<void()>& print) {
  const MutexLock lock(mu_);
  if (terminal_ && !history_.empty()) Write(kClearBelow);
  print();
  if (terminal_) Draw();
}

void ClearOnSignals() {
  if (isatty(STDERR_FILENO) != 1) return;
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(signal_number, OnSignal) == SIG_IGN) std::signal(signal_number, SIG_IGN);
  }
}

}  // namespace millrace::cli
