#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/live/folder.h"
#include "cli/live/live_client.h"
#include "cli/live/slow_answer.h"
#include "cli/live/tracer.h"
#include "cli/top/console.h"
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
  double trace_seconds = 10;
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
  // The socket of one of them.
  const std::string& first() const { return paths_.front(); }

 private:
  std::vector<std::string> paths_;  // of those that run; never empty before all have ended
};

// A trace that the program is asked for, and what became of it. Thread-compatible.
class TraceWish {
 public:
  explicit TraceWish(double seconds) : seconds_(seconds) {}

  // Asks the program at the socket, unless an answer is awaited.
  void Ask(const std::string& path, int64_t pid) {
    if (answer_) return;
    auto answer = SlowAnswer::Ask(path, TraceRequest(seconds_));
    if (!answer.ok()) return Say(answer.status());
    answer_ = *std::move(answer);
    file_ = absl::StrCat("millrace-trace-", pid, ".json");
    state_ = absl::StrFormat("traces %.3g s", seconds_);
  }
  // Can be read when Take may go on; -1: no answer is awaited.
  int fd() const { return answer_ ? answer_->fd() : -1; }
  // Takes what has come of the answer, and writes the file once that is whole.
  void Take() {
    const absl::StatusOr<bool> is_whole = answer_->Take();
    if (is_whole.ok() && !*is_whole) return;
    const std::string text = std::move(answer_->text());
    answer_.reset();
    if (!is_whole.ok()) return Say(is_whole.status());
    if (text.starts_with(kRefused)) {
      return Say(absl::UnavailableError(text.substr(kRefused.size())));
    }
    if (absl::Status written = Write(text); !written.ok()) return Say(written);
    state_ = "wrote " + file_;
  }
  // A line about it; empty: none was asked for.
  const std::string& state() const { return state_; }

 private:
  static constexpr std::string_view kRefused = "error: ";

  void Say(const absl::Status& failed) { state_ = absl::StrCat("no trace: ", failed.message()); }
  absl::Status Write(const std::string& text) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(file_));
    MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
    return file->Commit(/*sync=*/false);
  }

  const double seconds_;
  std::optional<SlowAnswer> answer_;
  std::string file_;
  std::string state_;
};

class Top {
 public:
  Top(const Flags& flags, Watched watched)
      : every_(flags.every),
        json_(flags.json),
        trace_seconds_(flags.trace_seconds),
        watched_(std::move(watched)),
        history_(flags.every),
        trace_(flags.trace_seconds) {}

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
      if (!Obey(console, next)) return absl::OkStatus();
    }
  }

  // Does what keys and signals ask for, until `end`; false: the user quits.
  bool Obey(Console& console, Clock::time_point end) {
    while (true) {
      switch (console.Await(end, trace_.fd())) {
        case Console::Event::kTurn:
          return true;
        case Console::Event::kQuit:
          return false;
        case Console::Event::kRedraw:
          break;
        case Console::Event::kWhatIfs:
          view_ = view_ == View::kFigures ? View::kWhatIfs : View::kFigures;
          break;
        case Console::Event::kTrace:
          if (!history_.empty()) trace_.Ask(watched_.first(), history_.shown().now->pid);
          break;
        case Console::Event::kAnswer:
          trace_.Take();
          break;
      }
      Draw(console);
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
    if (!history_.empty()) lines = RenderScreen(history_.shown(), size.columns, view_);
    if (silent_since_) lines.push_back(Silence());
    if (!trace_.state().empty()) lines.push_back(PlainText(trace_.state(), size.columns));
    if (console.has_keys()) lines.push_back(Keys());
    console.Show(lines, size);
  }
  std::string Silence() const {
    const std::chrono::duration<double> silent = Clock::now() - *silent_since_;
    return absl::StrFormat("no answer for %.0f s: the program may be stopped", silent.count());
  }
  std::string Keys() const {
    return absl::StrFormat("q quits   w %s   t traces %.3g s",
                           view_ == View::kFigures ? "what if" : "figures", trace_seconds_);
  }
  std::string Ended() const {
    if (history_.empty()) return "the program has ended";
    const Snapshot& last = *history_.shown().now;
    return absl::StrCat(last.command, " ", last.pid, " ", last.name, " has ended");
  }

  const double every_;
  const bool json_;
  const double trace_seconds_;
  Watched watched_;
  History history_;
  View view_ = View::kFigures;
  TraceWish trace_;
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
  shown.verdict = VerdictOf(*snapshot).sentence;
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
  command
      .Add("--trace-seconds", flags->trace_seconds, "Seconds of the trace that the key t asks for")
      .Finite(0.01, 60)
      .ShowDefault();
  command.AddSwitch("--once", flags->once, "Print the figures since the beginning, and end");
  command.AddSwitch("--json", flags->json, "Print one JSON object for each look");
  command.Footer(
      "On a terminal the figures are redrawn in place: q quits, w shows what changes would bring, "
      "t\n"
      "writes a trace. Elsewhere there is a line for each look. docs/top.md describes the "
      "figures.\n"
      "Examples:\n"
      "  millrace top\n"
      "  millrace top 4711 --every 5\n"
      "  millrace top imagenet_train --once --json");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
