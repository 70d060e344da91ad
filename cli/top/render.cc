#include "cli/top/render.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/status.h"
#include "cli/top/difference.h"
#include "cli/top/numbers.h"

namespace millrace::cli {
namespace {

using pipeline::OpProfile;
using pipeline::PipelineProfile;

constexpr int kLabel = 11;        // columns of a line's name
constexpr int kOp = 32;           // columns of an op's name
constexpr int kMaxVerdict = 4;    // lines of the verdict
constexpr size_t kMaxOps = 3;     // that have a line each
constexpr size_t kSparks = 20;    // columns of the rates' history
constexpr int kMinHeader = 20;    // columns of the program in the first line
constexpr int kMinBar = 8;        // a shorter bar is left out
constexpr double kSmall = 0.005;  // shares and cores that would show as 0.00

double Per(double part, double whole) { return whole > 0 ? part / whole : 0; }

// A line that begins with its name.
std::string Line(std::string_view name, std::string_view text) {
  return absl::StrFormat("%-*s%s", kLabel, ToAbsl(name), ToAbsl(text));
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

// One column for each group of rates, by its mean: '_' for 0, '#' for the highest.
std::string Sparks(std::span<const double> rates) {
  constexpr std::string_view kLevels = "_.-=+#";
  const double highest = rates.empty() ? 0 : *std::ranges::max_element(rates);
  if (!(highest > 0)) return std::string(std::min(kSparks, rates.size()), kLevels[0]);
  const size_t columns = std::min(kSparks, rates.size());
  std::string sparks;
  for (size_t i = 0; i < columns; ++i) {
    const auto group = rates.subspan(i * rates.size() / columns,
                                     (i + 1) * rates.size() / columns - i * rates.size() / columns);
    const double mean = std::reduce(group.begin(), group.end()) / static_cast<double>(group.size());
    sparks += kLevels[static_cast<size_t>(std::lround(mean / highest * (kLevels.size() - 1)))];
  }
  return sparks;
}

// "decode_image" of "decode_image: image/encoded -> image".
std::string NameOf(const OpProfile& op) {
  return op.summary.empty() ? op.stage : op.summary.substr(0, op.summary.find(": "));
}

// The lines of one moment.
class Page {
 public:
  Page(const Shown& shown, int width)
      : shown_(shown), figures_(Difference(shown.earlier, *shown.now)), width_(width) {}

  std::vector<std::string> Lines(View view) {
    Header();
    if (!figures_.ranks.empty()) {
      Rate();
      Verdict();
      if (view == View::kWhatIfs) {
        WhatIfs();
      } else {
        Figures(figures_.ranks[0]);
      }
    }
    for (std::string& line : lines_) line = PlainText(line, width_);
    return std::move(lines_);
  }
  std::string OneLine() const;

 private:
  void Add(std::string_view name, std::string_view text) { lines_.push_back(Line(name, text)); }
  void Header();
  std::string Place() const;
  void Figures(const RankSnapshot& rank) {
    Waits(rank.profile);
    Cores(rank.profile);
    Workers(rank.profile);
    Reads(rank);
    Memory(rank.profile.memory);
    if (rank.steps) Training(rank);
    if (figures_.world > 1) Ranks();
  }
  void Rate();
  std::string SamplesText() const;
  std::string UtilisationText() const;
  void Verdict();
  void WhatIfs();
  void Waits(const PipelineProfile& profile);
  void Cores(const PipelineProfile& profile);
  void Core(const PipelineProfile& profile, std::string_view op, double cores, bool is_first);
  void Workers(const PipelineProfile& profile);
  void Reads(const RankSnapshot& rank);
  void Memory(const pipeline::MemoryProfile& memory);
  void Training(const RankSnapshot& rank);
  void Ranks();

  const Shown& shown_;
  const Snapshot figures_;
  const int width_;
  std::vector<std::string> lines_;
};

// The place in the stream or the job.
std::string Page::Place() const {
  if (figures_.ranks.empty()) return "opening";
  const RankSnapshot& rank = shown_.now->ranks[0];
  if (!rank.steps) return CountText(rank.profile.batches) + " batches";
  return absl::StrFormat("epoch %.2f  step %s of %s", rank.steps->epoch,
                         CountText(static_cast<int64_t>(rank.steps->step)),
                         CountText(static_cast<int64_t>(rank.steps->total_steps)));
}

void Page::Header() {
  const std::string begin = absl::StrCat(figures_.command, " ", figures_.pid, " ", figures_.name);
  const std::string end = absl::StrCat(Place(), "  ", ClockText(figures_.elapsed_seconds));
  const int left = width_ - static_cast<int>(end.size()) - 2;
  if (left < kMinHeader) return lines_.push_back(absl::StrCat(begin, "  ", end));
  lines_.push_back(absl::StrFormat("%-*s  %s", left, PlainText(begin, left), end));
}

std::string Page::SamplesText() const {
  const double asked = figures_.asked_samples_per_second;
  const std::string rate = RateText(RateOf(figures_));
  return asked > 0 ? absl::StrCat(rate, " of ", RateText(asked)) : rate;
}

// The share of the time in which the consumer works; empty where there is none that would.
std::string Page::UtilisationText() const {
  const RankSnapshot& rank = figures_.ranks[0];
  const double asked = figures_.asked_samples_per_second;
  if (asked > 0) return absl::StrFormat("  AU %.2f", std::min(1.0, RateOf(figures_) / asked));
  return rank.steps ? absl::StrFormat("  AU %.2f", 1 - std::min(1.0, WaitShareOf(rank))) : "";
}

void Page::Rate() {
  const std::string sparks = Sparks(shown_.rates);
  Add("samples/s",
      absl::StrCat(SamplesText(), sparks.empty() ? "" : "  ", sparks, UtilisationText(), "  waits ",
                   Percent(WaitShareOf(figures_.ranks[0]))));
}

// A few lines, broken between words.
void Page::Verdict() {
  const auto room = static_cast<size_t>(width_ - kLabel);
  std::string rest = shown_.verdict;
  for (int line = 0; line < kMaxVerdict && !rest.empty(); ++line) {
    size_t cut =
        rest.size() <= room || line + 1 == kMaxVerdict ? rest.size() : rest.rfind(' ', room);
    if (cut == std::string::npos) cut = rest.size();
    Add(line == 0 ? "verdict" : "", rest.substr(0, cut));
    rest.erase(0, cut + 1);
  }
}

// A table as that of `explain --analyze`. More than a rate with ">=" may come of its change.
void Page::WhatIfs() {
  const std::string& unit = figures_.ranks[0].options.unit;
  lines_.push_back(absl::StrFormat("%-30s %10s %7s  %s", "what if", unit, "gain", "by"));
  for (const pipeline::WhatIf& what_if : shown_.what_ifs) {
    lines_.push_back(
        absl::StrFormat("%-30s %10s %7s  %s", what_if.label,
                        absl::StrCat(what_if.at_least ? ">=" : "", RateText(what_if.rate)),
                        absl::StrFormat("+%.0f %%", 100 * what_if.gain),
                        what_if.setting.empty() ? "-" : what_if.setting));
  }
}

void Page::Waits(const PipelineProfile& profile) {
  std::vector<std::pair<double, size_t>> causes;
  for (size_t cause = 0; cause < profile.wait_ns.size(); ++cause) {
    const double share =
        Per(static_cast<double>(profile.wait_ns[cause]), static_cast<double>(profile.elapsed_ns));
    if (share * 100 >= 0.05) causes.emplace_back(-share, cause);
  }
  std::ranges::sort(causes);
  std::string text;
  for (const auto& [share, cause] : causes) {
    const std::string next = absl::StrFormat(
        "%s%s %.1f", text.empty() ? "" : "  ",
        ToAbsl(pipeline::WaitCauseName(static_cast<pipeline::WaitCause>(cause))), -100 * share);
    if (kLabel + text.size() + next.size() + 2 <= static_cast<size_t>(width_)) text += next;
  }
  Add("waits", text.empty() ? "none" : text + " %");
}

void Page::Core(const PipelineProfile& profile, std::string_view op, double cores, bool is_first) {
  std::string text = absl::StrFormat("%-*s %5.2f", kOp, PlainText(op, kOp), cores);
  const int room = width_ - kLabel - static_cast<int>(text.size()) - 1;
  if (room >= kMinBar && profile.workers > 0) {
    const double full = std::clamp(cores / profile.workers, 0.0, 1.0) * room;
    absl::StrAppend(&text, " ", std::string(static_cast<size_t>(std::lround(full)), '#'));
  }
  text.erase(text.find_last_not_of(' ') + 1);
  Add(is_first ? "cores" : "", text);
}

void Page::Cores(const PipelineProfile& profile) {
  std::vector<const OpProfile*> ops;
  for (const OpProfile& op : profile.ops) ops.push_back(&op);
  std::ranges::stable_sort(ops, {}, [](const OpProfile* op) { return -op->busy_ns; });
  ops.resize(std::min(ops.size(), kMaxOps));
  const auto elapsed = static_cast<double>(profile.elapsed_ns);
  double others = Per(static_cast<double>(profile.busy_ns), elapsed);
  bool is_first = true;
  for (const OpProfile* const op : ops) {
    const double cores = Per(static_cast<double>(op->busy_ns), elapsed);
    others -= cores;
    if (cores < kSmall) continue;
    Core(profile, NameOf(*op), cores, is_first);
    is_first = false;
  }
  if (others >= kSmall) Core(profile, "other", others, is_first);
}

void Page::Workers(const PipelineProfile& profile) {
  const auto elapsed = static_cast<double>(profile.elapsed_ns);
  Add("workers",
      absl::StrFormat("%.2f of %.1f busy, at most %d   ring %.1f of %d ready, at most %d",
                      Per(static_cast<double>(profile.busy_ns), elapsed),
                      Per(static_cast<double>(profile.goal_ns), elapsed), profile.workers,
                      Per(static_cast<double>(profile.ready_ns), elapsed), profile.ring_goal,
                      profile.ring));
}

void Page::Reads(const RankSnapshot& rank) {
  const pipeline::ReadProfile& reads = rank.profile.reads;
  const double seconds = SecondsOf(rank);
  const std::string damaged = absl::StrCat("   damaged ", CountText(rank.records_bad));
  if (reads.groups == 0 && reads.in_flight == 0) return Add("reads", "none" + damaged);
  Add("reads", absl::StrFormat("%s MB/s  %s a second  p99 %s  %d in flight%s",
                               RateText(Per(static_cast<double>(reads.bytes) * 1e-6, seconds)),
                               RateText(Per(static_cast<double>(reads.groups), seconds)),
                               TimeText(static_cast<double>(reads.group_ns.Quantile(0.99))),
                               reads.in_flight, damaged));
}

void Page::Memory(const pipeline::MemoryProfile& memory) {
  const auto amount = [](int64_t bytes) { return BytesText(static_cast<double>(bytes)); };
  Add("memory", absl::StrCat(amount(memory.reserved_bytes), " of ", amount(memory.limit_bytes),
                             "  peak ", amount(memory.highest_bytes), "  held ",
                             amount(memory.held_bytes), "  fixed ", amount(memory.standing_bytes)));
}

void Page::Training(const RankSnapshot& rank) {
  const StepFigures& steps = *rank.steps;
  std::string text = steps.loss ? absl::StrFormat("loss %.4f", *steps.loss) : "loss -";
  if (steps.steps > 0) {
    const auto count = static_cast<double>(steps.steps);
    const auto left =
        static_cast<double>(steps.total_steps - std::min(steps.step, steps.total_steps));
    absl::StrAppend(&text, "  step ", TimeText(1e9 * steps.step_seconds / count),
                    "  of it data wait ", Percent(Per(steps.wait_seconds, steps.step_seconds)),
                    "  left ", ClockText(left * SecondsOf(rank) / count));
  }
  Add("training", text);
}

void Page::Ranks() {
  const auto less = [](const RankSnapshot& a, const RankSnapshot& b) {
    return WaitShareOf(a) < WaitShareOf(b);
  };
  const auto [least, most] = std::ranges::minmax_element(figures_.ranks, less);
  Add("ranks", absl::StrFormat("%d of %d here  waits %.1f to %s  most: rank %d",
                               figures_.ranks.size(), figures_.world, 100 * WaitShareOf(*least),
                               Percent(WaitShareOf(*most)), most->rank));
}

std::string Page::OneLine() const {
  const std::string begin = absl::StrCat(ClockText(figures_.elapsed_seconds), "  ", Place());
  if (figures_.ranks.empty()) return begin;
  const PipelineProfile& profile = figures_.ranks[0].profile;
  const auto elapsed = static_cast<double>(profile.elapsed_ns);
  const auto longest = std::ranges::max_element(profile.wait_ns);
  const std::string cause(
      pipeline::WaitCauseName(static_cast<pipeline::WaitCause>(longest - profile.wait_ns.begin())));
  return absl::StrCat(
      begin, "  ", SamplesText(), " samples/s", UtilisationText(), "  waits ",
      Percent(WaitShareOf(figures_.ranks[0])), *longest > 0 ? absl::StrCat(" (", cause, ")") : "",
      absl::StrFormat("  busy %.2f of %d  reads %s MB/s",
                      Per(static_cast<double>(profile.busy_ns), elapsed), profile.workers,
                      RateText(Per(static_cast<double>(profile.reads.bytes) * 1e3, elapsed))));
}

}  // namespace

std::vector<std::string> RenderScreen(const Shown& shown, int width, View view) {
  return Page(shown, width).Lines(view);
}

std::string RenderLine(const Shown& shown) { return Page(shown, 80).OneLine(); }

}  // namespace millrace::cli
