#include "pipeline/diagnosis/what_if.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace millrace::pipeline {
namespace {

// More bytes than this for each byte of records are worth a change.
constexpr double kReadFactorToChange = 1.5;
// More threads are proposed as long as each brings this part of the most that any number brings.
constexpr double kNearlyAll = 0.97;
constexpr int kMostThreads = 4096;
// Of two changes the first is better unless the other gains this much more.
constexpr double kNotableDifference = 0.03;

std::string Setting(const std::string& pattern, int64_t value) {
  return pattern.empty() ? "" : absl::StrReplaceAll(pattern, {{"$0", absl::StrCat(value)}});
}

// Collects changes of one model.
class Changes {
 public:
  explicit Changes(const Model& model) : model_(model) {}

  void Add(WhatIf::Kind kind, std::string label, const Model& changed, std::string setting = "") {
    AddRate(kind, std::move(label), changed.Rate(), std::move(setting));
  }
  void AddRate(WhatIf::Kind kind, std::string label, double rate, std::string setting) {
    WhatIf what_if;
    what_if.kind = kind;
    what_if.label = std::move(label);
    what_if.setting = std::move(setting);
    what_if.rate = std::max(Sane(rate), model_.rate);
    what_if.gain = std::max(0.0, Ratio(what_if.rate, model_.rate) - 1);
    found_.push_back(std::move(what_if));
  }
  // The model, with `factor` times as much of what the waits say is scarce.
  Model Scaled(Limit limit, double factor) const {
    Model changed = model_;
    changed.by_waits[static_cast<size_t>(limit)] *= factor;
    return changed;
  }
  bool Counts(Limit limit) const {
    return std::isfinite(model_.by_waits[static_cast<size_t>(limit)]);
  }
  const Model& model() const { return model_; }
  WhatIf& last() { return found_.back(); }
  std::vector<WhatIf> Take() { return std::move(found_); }

 private:
  const Model& model_;
  std::vector<WhatIf> found_;
};

Model WithThreads(const Model& model, int threads) {
  Model changed = model;
  changed.threads = threads;
  return changed;
}

// The least number of threads, up to one for each core, that brings nearly all that more bring.
int EnoughThreads(const Model& model, int cores) {
  const double most = WithThreads(model, cores).Rate();
  int threads = static_cast<int>(model.threads);
  while (threads < cores && WithThreads(model, threads).Rate() < kNearlyAll * most) ++threads;
  return threads;
}

void AddThreads(const DiagnosisOptions& options, Changes& changes) {
  const Model& model = changes.model();
  const int now = static_cast<int>(model.threads);
  const int cores =
      std::min(kMostThreads, static_cast<int>(std::min<double>(Sane(options.cores), kMostThreads)));
  const int most = options.most_threads > 0 ? std::min(cores, options.most_threads) : cores;
  const auto add = [&](int more) {
    changes.Add(WhatIf::Kind::kThreads, absl::StrCat("+", more, more == 1 ? " thread" : " threads"),
                WithThreads(model, now + more), Setting(options.settings.threads, now + more));
  };
  for (int more = 1; more <= 2 && now + more <= most; ++more) add(more);
  if (const int enough = EnoughThreads(model, most); enough > now + 2) add(enough - now);
  if (now < cores) return;
  Model changed = WithThreads(model, now + 1);
  changed.cores += 1;
  changes.Add(WhatIf::Kind::kMoreCores, "+1 core", changed);
}

void AddReading(const Diagnosis& diagnosis, Changes& changes) {
  changes.Add(WhatIf::Kind::kFasterStorage, "storage twice as fast",
              changes.Scaled(Limit::kReading, 2));
  const double factor = diagnosis.read_factor.value_or(1);
  if (!changes.Counts(Limit::kReading)) return;
  if (factor >= kReadFactorToChange) {
    changes.Add(WhatIf::Kind::kFewerBytes, "only the records' bytes",
                changes.Scaled(Limit::kReading, factor));
  }
}

// The slow files' reads would take the median time.
void AddWithoutFile(const PipelineProfile& profile, const Diagnosis& diagnosis, Changes& changes) {
  if (!diagnosis.slow_file.has_value() || !changes.Counts(Limit::kReading)) return;
  const FileReads& file = *diagnosis.slow_file;
  const auto all = Sane(static_cast<double>(std::max(profile.reads.files_ns, profile.reads.ns)));
  const double extra =
      static_cast<double>(file.ns) -
      static_cast<double>(profile.reads.median_file_ns) * static_cast<double>(file.reads);
  const double left = std::clamp(1 - Ratio(extra, all), 0.1, 1.0);
  changes.Add(WhatIf::Kind::kWithoutFile, "without the slow file",
              changes.Scaled(Limit::kReading, 1 / left));
  changes.last().at_least = true;
}

// The rate of storage's best moment: no more is known of it while the budget limits the reads.
double SeenOfReading(const Diagnosis& diagnosis) {
  const ResourceUse& reading = diagnosis.resources[static_cast<size_t>(Limit::kReading)];
  return reading.at_least ? reading.allows.value_or(kNoLimit) : kNoLimit;
}

// More of the budget is for work, the less of it stands; but some of what stands grows with it.
void AddBudget(const PipelineProfile& profile, const DiagnosisOptions& options,
               const Diagnosis& diagnosis, Changes& changes) {
  const int64_t mib = std::max<int64_t>(1, profile.memory.limit_bytes >> 20);
  const auto limit = Sane(static_cast<double>(profile.memory.limit_bytes));
  const double room =
      std::max(limit / 16, limit - Sane(static_cast<double>(profile.memory.standing_bytes)));
  const double factor = std::clamp(1 + Ratio(limit, room), 2.0, 4.0);
  const double rate = changes.Scaled(Limit::kBudget, factor).Rate();
  const double seen = SeenOfReading(diagnosis);
  changes.AddRate(WhatIf::Kind::kLargerBudget, "twice the memory budget", std::min(rate, seen),
                  Setting(options.settings.budget_mib, 2 * mib));
  changes.last().at_least = rate > seen;
  if (!changes.Counts(Limit::kBudget) || diagnosis.held_bytes < limit / 4) return;
  const double left = std::max(room / 16, room - diagnosis.held_bytes);
  changes.Add(WhatIf::Kind::kDropBatches, "batches dropped at once",
              changes.Scaled(Limit::kBudget, std::max(1.0, Ratio(room, left))));
}

// The fraction of the workers' time in which they had nothing to do.
double IdlePart(const PipelineProfile& profile) {
  const double whole = static_cast<double>(profile.elapsed_ns) * std::max(1, profile.workers);
  return 1 - std::min(1.0, Ratio(static_cast<double>(profile.busy_ns), whole));
}

// The waits for a longer ring go; what they hid limits then. With fewer batches than workers, some
// have nothing to do at the end of each batch, also while the consumer waits for others' work.
void AddRing(const PipelineProfile& profile, const DiagnosisOptions& options, Changes& changes) {
  const Model& model = changes.model();
  const Model longer = changes.Scaled(Limit::kRing, kNoLimit);
  const int ring = std::max(1, profile.ring);
  const auto waited = static_cast<double>(profile.wait_ns[static_cast<size_t>(WaitCause::kRing)]);
  double part = Ratio(waited, static_cast<double>(profile.elapsed_ns));
  double most = longer.Rate();
  if (ring < profile.workers) {
    part = std::max(part, IdlePart(profile));
    most = longer.least();
  }
  const double rate = std::min(most, model.rate / (1 - std::clamp(part, 0.0, 0.9)));
  changes.AddRate(WhatIf::Kind::kLongerRing, "twice the open batches", rate,
                  Setting(options.settings.ring, int64_t{2} * ring));
}

bool Normalizes(const WorkPart& part) { return part.is_op && part.name == "normalize"; }

// Saves the time of an op that does nothing else, and room in the budget. A pass that normalizes
// beside other work takes as long without (docs/diagnosis.md).
void AddUint8(const PipelineProfile& profile, const DiagnosisOptions& options,
              const Diagnosis& diagnosis, Changes& changes) {
  if (options.uint8_saved_bytes <= 0) return;
  double saved = 0;
  for (const WorkPart& part : diagnosis.parts) {
    if (Normalizes(part)) saved += part.share;
  }
  const double batch_rows =
      Ratio(static_cast<double>(profile.rows), static_cast<double>(profile.batches));
  const double smaller = Ratio(static_cast<double>(options.uint8_saved_bytes) * batch_rows,
                               static_cast<double>(profile.memory.batch_bytes));
  Model changed = changes.Scaled(Limit::kBudget, 1 / std::clamp(1 - smaller, 0.25, 1.0));
  changed.worker_seconds *= std::clamp(1 - saved, 0.1, 1.0);
  changes.Add(WhatIf::Kind::kUint8, "uint8 batches", changed);
}

void AddAlone(const PipelineProfile& profile, const HostUse& host, Changes& changes) {
  const Model& model = changes.model();
  const double stolen = Ratio(host.stolen_core_seconds.value_or(0), HostSeconds(profile, host));
  if (model.foreign <= 0 && stolen < 0.05) return;
  Model changed = changes.Scaled(Limit::kStart, kNoLimit);
  changed.foreign = 0;
  changed.hand_off_seconds = 0;
  changed.cores += stolen;
  changes.Add(WhatIf::Kind::kAlone, "no other programs on the cores", changed);
}

}  // namespace

bool NeedsHardware(WhatIf::Kind kind) {
  return kind == WhatIf::Kind::kMoreCores || kind == WhatIf::Kind::kFasterStorage;
}

std::vector<WhatIf> WhatIfsOf(const Model& model, const PipelineProfile& profile,
                              const HostUse& host, const DiagnosisOptions& options,
                              const Diagnosis& diagnosis) {
  if (model.rate <= 0) return {};
  Changes changes(model);
  AddThreads(options, changes);
  AddReading(diagnosis, changes);
  AddWithoutFile(profile, diagnosis, changes);
  AddBudget(profile, options, diagnosis, changes);
  AddUint8(profile, options, diagnosis, changes);
  AddRing(profile, options, changes);
  AddAlone(profile, host, changes);
  Model changed = model;
  changed.consumer_seconds /= 2;
  changes.Add(WhatIf::Kind::kFasterConsumer, "consumer twice as fast", changed);
  return changes.Take();
}

std::optional<size_t> BestChange(const std::vector<WhatIf>& what_ifs) {
  std::optional<size_t> best;
  const auto better = [&](size_t i) {
    if (what_ifs[i].gain < kNotableGain) return false;
    if (what_ifs[i].kind == WhatIf::Kind::kFasterConsumer) return false;
    if (!best.has_value()) return true;
    const bool hard = NeedsHardware(what_ifs[i].kind);
    if (hard != NeedsHardware(what_ifs[*best].kind)) return !hard;
    return what_ifs[i].gain > what_ifs[*best].gain + kNotableDifference;
  };
  for (size_t i = 0; i < what_ifs.size(); ++i) {
    if (better(i)) best = i;
  }
  return best;
}

}  // namespace millrace::pipeline
