#include "cli/top/console.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>

namespace millrace::cli {

Console::Console(bool is_screen) : is_screen_(is_screen) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP}) {
    sigaddset(&signals, number);
  }
  (void)sigprocmask(SIG_BLOCK, &signals, nullptr);  // fails for a wrong first argument alone
  signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  Begin();
}

void Console::Show(const std::vector<std::string>& lines, const TerminalSize& size) {
  std::fputs(WholeText(lines, size).c_str(), stdout);
  std::fflush(stdout);
}

Console::Event Console::Await(Clock::time_point end, int other) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return Event::kTurn;
    pollfd watched[3] = {{signals_.get(), POLLIN, 0},
                         {has_keys_ ? STDIN_FILENO : -1, POLLIN, 0},
                         {other, POLLIN, 0}};
    if (::poll(watched, 3, static_cast<int>(std::min<int64_t>(left, 60'000))) <= 0) continue;
    if (watched[1].revents != 0) {
      if (const auto event = TakeKey()) return *event;
    }
    if (watched[0].revents != 0) {
      if (const auto event = TakeSignal()) return *event;
    }
    if (watched[2].revents != 0) return Event::kAnswer;
  }
}

void Console::Begin() {
  if (!is_screen_) return;
  termios now{};
  if (isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &now) == 0) {
    before_ = now;
    has_keys_ = true;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    (void)::tcsetattr(STDIN_FILENO, TCSANOW, &now);  // without it `q` needs a line end
  }
  std::fputs(kBeginWhole, stdout);
  std::fflush(stdout);
}

void Console::End() {
  if (!is_screen_) return;
  if (before_) (void)::tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
  std::fputs(kEndWhole, stdout);
  std::fflush(stdout);
}

std::optional<Console::Event> Console::TakeKey() {
  char key = 0;
  has_keys_ = ::read(STDIN_FILENO, &key, 1) == 1;  // not so at the end of the input
  switch (key) {
    case 'q':
    case 'Q':
      return Event::kQuit;
    case 'w':
    case 'W':
      return Event::kWhatIfs;
    case 't':
    case 'T':
      return Event::kTrace;
    default:
      return std::nullopt;
  }
}

std::optional<Console::Event> Console::TakeSignal() {
  signalfd_siginfo taken{};
  if (::read(signals_.get(), &taken, sizeof(taken)) != sizeof(taken)) return std::nullopt;
  if (taken.ssi_signo == SIGWINCH) return Event::kRedraw;
  if (taken.ssi_signo != SIGTSTP) return Event::kQuit;
  End();
  (void)std::raise(SIGSTOP);
  Begin();
  return Event::kRedraw;
}

}  // namespace millrace::cli
