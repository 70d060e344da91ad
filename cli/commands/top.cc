#include <poll.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/live/folder.h"
#include "cli/live/live_client.h"
#include "cli/top/history.h"
#include "cli/top/numbers.h"
#include "cli/top/render.h"
#include "cli/top/terminal.h"
#include "cli/top/verdict.h"

// `millrace top` shows the figures of a running `millrace run` or `millrace train`, which it asks
// over a socket (cli/live). Of a job whose ranks are processes it asks all that are on this host.

namespace millrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::string program;
  double every = 1;
  bool once = false;
  bool json = false;
};

// True for ranks of one job: processes of one name whose ranks differ.
bool IsOneJob(const std::vector<Running>& running) {
  std::set<int> ranks;
  for (const Running& program : running) {
    if (!program.snapshot.ok()) return running.size() == 1;
    const Snapshot& snapshot = *program.snapshot;
    const Snapshot& first = *running[0].snapshot;
    if (snapshot.name != first.name || snapshot.command != first.command) return false;
    for (const RankSnapshot& rank : snapshot.ranks) {
      if (!ranks.insert(rank.rank).second) return false;
    }
  }
  return true;
}

std::vector<Running> Chosen(std::vector<Running> running, const std::string& program) {
  if (program.empty()) return running;
  int64_t pid = 0;
  const bool is_pid = absl::SimpleAtoi(program, &pid);
  std::erase_if(running, [&](const Running& one) {
    return is_pid ? one.socket.pid != pid : one.socket.name != program;
  });
  return running;
}

std::string Listed(const Running& program) {
  const std::string begin = absl::StrFormat("%7d  %s", program.socket.pid, program.socket.name);
  if (!program.snapshot.ok()) return begin + "  does not answer";
  return absl::StrCat(begin, "  ", program.snapshot->command, "  ",
                      ClockText(program.snapshot->elapsed_seconds));
}

int List(const std::vector<Running>& running) {
  for (const Running& program : running) std::puts(Listed(program).c_str());
  std::puts("`millrace top PID` shows one of them");
  return kDone;
}

// The figures of several processes of a job as those of one.
Snapshot Merged(std::vector<Snapshot> snapshots) {
  const auto first_rank = [](const Snapshot& snapshot) {
    return snapshot.ranks.empty() ? std::numeric_limits<int>::max() : snapshot.ranks[0].rank;
  };
  std::ranges::stable_sort(snapshots, {}, first_rank);
  Snapshot merged = std::move(snapshots[0]);
  for (size_t i = 1; i < snapshots.size(); ++i) {
    std::ranges::move(snapshots[i].ranks, std::back_inserter(merged.ranks));
  }
  return merged;
}

// The programs that are watched: processes of one job.
class Watched {
 public:
  explicit Watched(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  // Asks those that still run.
  //   NOT_FOUND          all have ended
  //   DEADLINE_EXCEEDED  one does not answer
  absl::StatusOr<Snapshot> Look() {
    std::vector<Snapshot> snapshots;
    absl::Status failed = absl::NotFoundError("it has ended");
    std::erase_if(paths_, [&](const std::string& path) {
      absl::StatusOr<Snapshot> snapshot = Ask(path);
      if (snapshot.ok()) {
        snapshots.push_back(*std::move(snapshot));
      } else if (!absl::IsNotFound(snapshot.status())) {
        failed = snapshot.status();
      }
      return absl::IsNotFound(snapshot.status());
    });
    if (snapshots.empty()) return failed;
    return Merged(std::move(snapshots));
  }

 private:
  std::vector<std::string> paths_;
};

// The keys and the signals of this process, and, if `is_screen`, the terminal of standard output,
// which it gives back at its end. Signals come by a file descriptor, so that no handler runs.
class Console {
 public:
  explicit Console(bool is_screen) : is_screen_(is_screen) {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP}) {
      sigaddset(&signals, number);
    }
    (void)sigprocmask(SIG_BLOCK, &signals, nullptr);  // fails for a wrong first argument alone
    signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    Begin();
  }
  ~Console() { End(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool is_screen() const { return is_screen_; }
  // True if keys can be read.
  bool has_keys() const { return has_keys_; }

  void Show(const std::vector<std::string>& lines, const TerminalSize& size) {
    std::fputs(WholeText(lines, size).c_str(), stdout);
    std::fflush(stdout);
  }

  enum class Event { kTurn, kRedraw, kQuit };
  // Waits until `end`, a key or a signal.
  Event Await(Clock::time_point end) {
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return Event::kTurn;
      pollfd watched[2] = {{signals_.get(), POLLIN, 0}, {has_keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
      if (::poll(watched, 2, static_cast<int>(std::min<int64_t>(left, 60'000))) <= 0) continue;
      if (watched[1].revents != 0 && IsQuit()) return Event::kQuit;
      if (watched[0].revents == 0) continue;
      if (const auto event = TakeSignal()) return *event;
    }
  }

 private:
  void Begin() {
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
  void End() {
    if (!is_screen_) return;
    if (before_) (void)::tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
    std::fputs(kEndWhole, stdout);
    std::fflush(stdout);
  }
  bool IsQuit() {
    char key = 0;
    has_keys_ = ::read(STDIN_FILENO, &key, 1) == 1;  // not so at the end of the input
    return key == 'q' || key == 'Q';
  }
  std::optional<Event> TakeSignal() {
    signalfd_siginfo taken{};
    if (::read(signals_.get(), &taken, sizeof(taken)) != sizeof(taken)) return std::nullopt;
    if (taken.ssi_signo == SIGWINCH) return Event::kRedraw;
    if (taken.ssi_signo != SIGTSTP) return Event::kQuit;
    End();
    (void)std::raise(SIGSTOP);
    Begin();
    return Event::kRedraw;
  }

  const bool is_screen_;
  bool has_keys_ = false;
  std::optional<termios> before_;  // of the terminal, if it was changed
  UniqueFd signals_;
};

class Top {
 public:
  Top(const Flags& flags, Watched watched)
      : every_(flags.every),
        json_(flags.json),
        watched_(std::move(watched)),
        history_(flags.every) {}

  // Shows the program until it ends or the user quits.
  int Run() {
    absl::Status ended;
    {
      Console console(!json_ && isatty(STDOUT_FILENO) == 1);
      ended = Watch(console);
    }
    if (ended.ok()) return kDone;
    if (!absl::IsNotFound(ended)) return Fail(ended);
    if (!json_) std::puts(Ended().c_str());
    return kDone;
  }

 private:
  absl::Status Watch(Console& console) {
    Clock::time_point next = Clock::now();
    while (true) {
      MILLRACE_RETURN_IF_ERROR(Look());
      Show(console);
      next = std::max(
          next + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(every_)),
          Clock::now());
      Console::Event event = console.Await(next);
      for (; event == Console::Event::kRedraw; event = console.Await(next)) Draw(console);
      if (event == Console::Event::kQuit) return absl::OkStatus();
    }
  }

  absl::Status Look() {
    absl::StatusOr<Snapshot> snapshot = watched_.Look();
    if (absl::IsDeadlineExceeded(snapshot.status())) {
      if (!silent_since_) silent_since_ = Clock::now();
      return absl::OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(snapshot.status());
    silent_since_.reset();
    history_.Add(*std::move(snapshot));
    return absl::OkStatus();
  }

  void Show(Console& console) {
    if (json_) return PrintJson();
    if (console.is_screen()) return Draw(console);
    std::puts(silent_since_ ? Silence().c_str() : RenderLine(history_.shown()).c_str());
    std::fflush(stdout);
  }
  void PrintJson() {
    if (silent_since_) return;
    std::puts(ToJson(*history_.shown().now).c_str());
    std::fflush(stdout);
  }
  void Draw(Console& console) {
    if (!console.is_screen()) return;
    const TerminalSize size = TerminalSizeOf(STDOUT_FILENO);
    std::vector<std::string> lines;
    if (!history_.empty()) lines = RenderScreen(history_.shown(), size.columns);
    if (silent_since_) lines.push_back(Silence());
    if (console.has_keys()) lines.emplace_back("q quits");
    console.Show(lines, size);
  }
  std::string Silence() const {
    const std::chrono::duration<double> silent = Clock::now() - *silent_since_;
    return absl::StrFormat("no answer for %.0f s: the program may be stopped", silent.count());
  }
  std::string Ended() const {
    if (history_.empty()) return "the program has ended";
    const Snapshot& last = *history_.shown().now;
    return absl::StrCat(last.command, " ", last.pid, " ", last.name, " has ended");
  }

  const double every_;
  const bool json_;
  Watched watched_;
  History history_;
  std::optional<Clock::time_point> silent_since_;
};

// Prints the figures since the beginning.
int ShowOnce(const Flags& flags, Watched watched) {
  const auto snapshot = watched.Look();
  if (!snapshot.ok()) return Fail(snapshot.status());
  if (flags.json) {
    std::puts(ToJson(*snapshot).c_str());
    return kDone;
  }
  const int columns = TerminalSizeOf(STDOUT_FILENO).columns;
  Shown shown;
  shown.now = &*snapshot;
  shown.verdict = VerdictOf(*snapshot);
  for (const std::string& line : RenderScreen(shown, columns)) std::puts(line.c_str());
  return kDone;
}

int Run(const Flags& flags) {
  const auto folder = LiveFolder();
  if (!folder.ok()) return Fail(folder.status());
  const std::vector<Running> running = Chosen(AskAll(*folder), flags.program);
  if (running.empty()) {
    const std::string which = flags.program.empty() ? "" : " of that number or name";
    return Fail(absl::NotFoundError(
        absl::StrCat("no `millrace run` or `millrace train` of this user runs here", which)));
  }
  if (!IsOneJob(running)) return List(running);
  std::vector<std::string> paths;
  for (const Running& program : running) paths.push_back(program.socket.path);
  Watched watched(std::move(paths));
  if (flags.once) return ShowOnce(flags, std::move(watched));
  return Top(flags, std::move(watched)).Run();
}

}  // namespace

void AddTop(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command =
      parent.AddCommand("top", "Show what a running `run` or `train` spends its time on");
  command.Add("program", flags->program,
              "Its process number or its name; not needed if one program runs");
  command.Add("--every", flags->every, "Seconds between two looks").Finite(0.1, 3600).ShowDefault();
  command.AddSwitch("--once", flags->once, "Print the figures since the beginning, and end");
  command.AddSwitch("--json", flags->json, "Print one JSON object for each look");
  command.Footer(
      "On a terminal the figures are redrawn in place, and q quits; elsewhere there is a line for\n"
      "each look. docs/top.md describes the figures.\n"
      "Examples:\n"
      "  millrace top\n"
      "  millrace top 4711 --every 5\n"
      "  millrace top imagenet_train --once --json");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
