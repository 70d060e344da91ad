#include <algorithm>
#include <cmath>
#include <utility>

#include "pipeline/diagnosis.h"
#include "pipeline/diagnosis/model.h"
#include "pipeline/diagnosis/parts.h"
#include "pipeline/diagnosis/sentence.h"
#include "pipeline/diagnosis/what_if.h"

namespace millrace::pipeline {
namespace {

// Two limits within this factor both bind, or those for which the consumer waited about as long.
constexpr double kNearly = 1.1;
constexpr double kNearlyAsLong = 0.5;
// A file is slow if a read of it takes this many times the median, and it makes up this part of the
// time of all reads beyond that.
constexpr double kSlowFile = 3;
constexpr double kSlowFilePart = 0.1;
constexpr int64_t kEnoughRows = 64;
// Calls of read bring all bytes if they bring this part of those that were asked for: reads that
// straddle the ends of the stretch count as a whole.
constexpr double kAllBytes = 0.9;
// Reads that carry fewer bytes than this wait for storage to answer rather than for bytes.
constexpr double kSmallRead = 64 << 10;

double Positive(int64_t number) { return Sane(static_cast<double>(number)); }

// The bytes that were read, of our requests or of the device or the servers, the most of them.
double BytesRead(const PipelineProfile& profile, const HostUse& host,
                 const DiagnosisOptions& options) {
  return std::max({Positive(profile.reads.bytes), Positive(host.device_read_bytes.value_or(0)),
                   Positive(options.fetched_bytes)});
}

// The bytes of the records of the samples that were worked on, as those of the source's weighed
// rows; 0: too few rows were weighed.
double RecordBytes(const PipelineProfile& profile) {
  if (profile.ops.empty()) return 0;
  const OpProfile& source = profile.ops.front();
  if (source.weighed_rows < kEnoughRows) return 0;
  const int64_t bytes = std::max(source.bytes_in, source.bytes_out);
  return Ratio(Positive(bytes), Positive(source.weighed_rows)) * WorkedSamples(profile);
}

void FillSlowFile(const PipelineProfile& profile, Diagnosis& diagnosis) {
  const ReadProfile& reads = profile.reads;
  diagnosis.median_file_ms = 1e-6 * Positive(reads.median_file_ns);
  if (reads.files < 3 || reads.slowest.empty() || reads.median_file_ns <= 0) return;
  const FileReads& file = reads.slowest.front();
  const double mean = Ratio(Positive(file.ns), Positive(file.reads));
  const double median = Positive(reads.median_file_ns);
  const double extra = (mean - median) * Positive(file.reads);
  if (mean < kSlowFile * median ||
      extra < kSlowFilePart * Positive(std::max(reads.files_ns, reads.ns)))
    return;
  diagnosis.slow_file = file;
  diagnosis.slow_file->max_ns = std::max(file.max_ns, file.ns / file.reads);
}

// The part of the bytes of files that came from the page cache: what storage did not deliver. It is
// not known where calls of read are not all that brings bytes: mapped files, inflated ones, URLs.
std::optional<double> CachedPart(const PipelineProfile& profile, const HostUse& host) {
  if (!host.device_read_bytes.has_value()) return std::nullopt;
  const double asked = Positive(host.call_read_bytes.value_or(0));
  if (asked <= 0 || asked < kAllBytes * Positive(profile.reads.bytes)) return std::nullopt;
  return std::max(0.0, 1 - Positive(*host.device_read_bytes) / asked);
}

void FillReads(const PipelineProfile& profile, const HostUse& host, const DiagnosisOptions& options,
               Diagnosis& diagnosis) {
  const ReadProfile& reads = profile.reads;
  diagnosis.reads_under_way = Ratio(Positive(reads.ns), Positive(reads.any_ns));
  diagnosis.reads_in_flight = Ratio(Positive(reads.ns), Positive(profile.elapsed_ns));
  diagnosis.read_ms = 1e-6 * Ratio(Positive(reads.ns), Positive(reads.groups));
  if (reads.group_ns.count() > 0) {
    diagnosis.read_p50_ms = 1e-6 * static_cast<double>(reads.group_ns.Quantile(0.5));
    diagnosis.read_p99_ms = 1e-6 * static_cast<double>(reads.group_ns.Quantile(0.99));
  }
  diagnosis.cached = CachedPart(profile, host);
  diagnosis.latency =
      reads.requests > 0 && Ratio(Positive(reads.bytes), Positive(reads.requests)) < kSmallRead;
  // Of what pass 1 reads only a part is worked on.
  const bool has_cut = profile.items[static_cast<size_t>(ItemKind::kExamine)].items > 0;
  const double records = has_cut ? 0 : RecordBytes(profile);
  const double read = BytesRead(profile, host, options);
  if (records > 0 && read > 0) diagnosis.read_factor = Ratio(read, records);
  FillSlowFile(profile, diagnosis);
}

void FillHost(const PipelineProfile& profile, const HostUse& host, const DiagnosisOptions& options,
              Diagnosis& diagnosis) {
  const double seconds = HostSeconds(profile, host);
  diagnosis.threads = std::max(1, profile.workers);
  diagnosis.threads_now = std::clamp(profile.worker_goal, 1, diagnosis.threads);
  diagnosis.cores = std::clamp(Sane(options.cores), 1.0, 1e6);
  diagnosis.pipeline_cores =
      Ratio(Positive(profile.busy_ns) * ProcessorShare(profile), Positive(profile.elapsed_ns));
  diagnosis.other_cores = OtherCores(profile, host, options);
  diagnosis.stolen_cores = Ratio(host.stolen_core_seconds.value_or(0), seconds);
  diagnosis.throttled = std::min(1.0, Ratio(host.throttled_seconds.value_or(0), seconds));
  diagnosis.switches = Ratio(Positive(host.voluntary_switches), seconds);
  diagnosis.preemptions = Ratio(Positive(host.involuntary_switches), seconds);
}

void FillConsumer(const PipelineProfile& profile, Diagnosis& diagnosis) {
  const double seconds = 1e-9 * Positive(profile.elapsed_ns);
  const double working = 1e-6 * Positive(profile.elapsed_ns - profile.wait_total_ns());
  diagnosis.consumer_ms = Ratio(working, Positive(profile.batches));
  const HandOverProfile& calls = profile.hand_over;
  if (calls.calls > 0) {
    diagnosis.hand_over_us = 1e-3 * Ratio(Positive(calls.ns), Positive(calls.calls));
  }
  const CopyProfile& copies = profile.copies;
  if (copies.batches <= 0) return;
  diagnosis.copies = {Ratio(Positive(copies.bytes), seconds),
                      1e-3 * Ratio(Positive(copies.issue_ns), Positive(copies.batches)),
                      std::min(1.0, Ratio(1e-9 * Positive(copies.wait_ns), seconds))};
}

void FillStretch(const PipelineProfile& profile, const DiagnosisOptions& options,
                 Diagnosis& diagnosis) {
  diagnosis.seconds = 1e-9 * Positive(profile.elapsed_ns);
  diagnosis.samples = Positive(profile.rows);
  diagnosis.rate = Ratio(diagnosis.samples, diagnosis.seconds);
  diagnosis.batches_per_second = Ratio(Positive(profile.batches), diagnosis.seconds);
  diagnosis.unit = options.unit;
  diagnosis.ring = std::max(1, profile.ring);
  diagnosis.held_bytes = Positive(profile.memory.held_bytes);
  if (Sane(options.pace) > 0) {
    diagnosis.pace = options.pace;
    diagnosis.utilisation = std::min(1.0, Ratio(diagnosis.rate, options.pace));
  }
  diagnosis.wait_ns = profile.wait_ns;
  for (int64_t& ns : diagnosis.wait_ns) ns = std::max<int64_t>(0, ns);
  const double waits = Positive(profile.wait_total_ns());
  diagnosis.wait_fraction = std::min(1.0, Ratio(waits, Positive(profile.elapsed_ns)));
  diagnosis.verdict = InputVerdict(diagnosis.wait_fraction);
}

std::optional<double> Known(double rate) {
  if (!std::isfinite(rate)) return std::nullopt;
  return Sane(rate);
}

ResourceUse UseOf(const Model& model, Limit limit, double used, std::optional<double> of) {
  ResourceUse use;
  use.limit = limit;
  use.used = used;
  use.of = of;
  use.allows = Known(model.Allows(limit));
  return use;
}

ResourceUse WorkersUse(const Model& model, const Diagnosis& diagnosis) {
  return UseOf(model, Limit::kWorkers, diagnosis.pipeline_cores,
               std::min(model.threads, model.share()));
}

// Where nobody waits for reads, storage can do at least what it did while reads were under way, and
// what it did in its best moment.
ResourceUse ReadingUse(const Model& model, const PipelineProfile& profile, double bytes) {
  const double rate = Ratio(bytes, 1e-9 * Positive(profile.elapsed_ns));
  ResourceUse use = UseOf(model, Limit::kReading, rate, std::nullopt);
  if (!use.allows.has_value() && use.used > 0 && model.rate > 0) {
    use.at_least = true;
    const double busy = Ratio(Positive(profile.reads.any_ns), Positive(profile.elapsed_ns));
    const double mean = Ratio(Positive(profile.reads.bytes), 1e-9 * Positive(profile.elapsed_ns));
    const double best = Ratio(10 * Positive(profile.reads.best_window_bytes), mean);
    const double factor = std::max({1.0, best, busy > 0 ? 1 / std::max(busy, 1e-3) : 1.0});
    use.allows = Sane(model.rate * factor);
  }
  if (use.allows.has_value()) use.of = use.used * std::max(1.0, Ratio(*use.allows, model.rate));
  return use;
}

ResourceUse BudgetUse(const Model& model, const MemoryProfile& memory) {
  ResourceUse use =
      UseOf(model, Limit::kBudget, Positive(memory.highest_bytes), Positive(memory.limit_bytes));
  if (use.allows.has_value() || use.used <= 0) return use;
  use.at_least = true;
  const double standing = Positive(memory.standing_bytes);
  const double room = std::max(*use.of / 16, *use.of - standing);
  const double work = std::max(1.0, use.used - standing);
  use.allows = Sane(model.rate * std::max(1.0, room / work));
  return use;
}

ResourceUse SerialUse(const Model& model, const PipelineProfile& profile) {
  const double used = Ratio(Positive(profile.serial_ns), Positive(profile.elapsed_ns));
  return UseOf(model, Limit::kSerial, std::min(1.0, used), 1.0);
}

ResourceUse ConsumerUse(const Model& model) {
  return UseOf(model, Limit::kConsumer, model.rate, Known(model.Allows(Limit::kConsumer)));
}

// The limits of which the consumer's waits tell most: one, or a second that it awaited nearly as
// long.
std::vector<Limit> MostAwaited(WaitTimes wait_ns) {
  const auto most = std::ranges::max_element(wait_ns);
  std::vector<Limit> limits = {LimitOf(static_cast<WaitCause>(most - wait_ns.begin()))};
  const int64_t longest = std::exchange(*most, 0);
  const auto next = std::ranges::max_element(wait_ns);
  if (Ratio(Positive(*next), Positive(longest)) >= kNearlyAsLong) {
    limits.push_back(LimitOf(static_cast<WaitCause>(next - wait_ns.begin())));
  }
  return limits;
}

// The limit that binds, and the next one if it is near.
std::vector<Limit> BindingOf(const Model& model, const Diagnosis& diagnosis) {
  const bool waits = diagnosis.wait_fraction >= 0.05;
  if (diagnosis.seconds <= 0 || (waits && diagnosis.rate <= 0)) return {};
  std::vector<Limit> binding =
      waits ? MostAwaited(diagnosis.wait_ns) : std::vector<Limit>{Limit::kConsumer};
  if (binding.size() > 1) return binding;
  const double lowest = std::min(model.least(), model.Allows(binding[0]));
  double near = kNearly * std::max(diagnosis.rate, lowest);
  std::optional<Limit> second;
  for (size_t i = 0; i < kNumLimits; ++i) {
    const auto limit = static_cast<Limit>(i);
    if (limit == binding[0] || model.Allows(limit) > near) continue;
    near = model.Allows(limit);
    second = limit;
  }
  if (second.has_value()) binding.push_back(*second);
  return binding;
}

// The rate for a consumer that takes no time of any kind, by the plain minimum: while nobody waits,
// today's efficiency is that of the consumer.
std::optional<double> CeilingOf(Model model) {
  model.consumer_seconds = model.hand_off_seconds = model.other_seconds = 0;
  const double least = model.least();
  if (!std::isfinite(least)) return std::nullopt;
  return std::max(model.rate, Sane(least));
}

}  // namespace

std::string InputVerdict(double wait_fraction) {
  if (wait_fraction < 0.05) return "NOT input-bound";
  return wait_fraction < 0.20 ? "MODERATELY input-bound" : "HIGHLY input-bound";
}

std::string LimitName(Limit limit) {
  switch (limit) {
    case Limit::kWorkers:
      return "worker CPU";
    case Limit::kReading:
      return "reading";
    case Limit::kBudget:
      return "memory budget";
    case Limit::kSerial:
      return "serial parts";
    case Limit::kConsumer:
      return "consumer";
    case Limit::kRing:
      return "ring";
    case Limit::kStart:
      return "start of workers";
    case Limit::kHandOff:
      return "hand-off";
    case Limit::kSource:
      return "source";
  }
  return "";
}

Diagnosis Diagnose(const PipelineProfile& profile, const HostUse& host,
                   const DiagnosisOptions& options) {
  Diagnosis diagnosis;
  FillStretch(profile, options, diagnosis);
  FillConsumer(profile, diagnosis);
  FillHost(profile, host, options, diagnosis);
  FillReads(profile, host, options, diagnosis);
  diagnosis.parts = PartsOf(profile);
  diagnosis.measured_us = Sane(1e-3 * Ratio(Positive(profile.busy_ns), WorkedSamples(profile)) *
                               ProcessorShare(profile));
  diagnosis.process_us = 1e6 * Ratio(host.process_seconds(), diagnosis.samples);
  const Model model = MakeModel(profile, host, options);
  diagnosis.resources = {
      WorkersUse(model, diagnosis), ReadingUse(model, profile, BytesRead(profile, host, options)),
      BudgetUse(model, profile.memory), SerialUse(model, profile), ConsumerUse(model)};
  diagnosis.binding = BindingOf(model, diagnosis);
  if (diagnosis.rate > 0) diagnosis.ceiling = CeilingOf(model);
  diagnosis.what_ifs = WhatIfsOf(model, profile, host, options, diagnosis);
  const bool waits = !diagnosis.binding.empty() && diagnosis.binding[0] != Limit::kConsumer;
  if (waits) diagnosis.change = BestChange(diagnosis.what_ifs);
  diagnosis.sentence = SentenceOf(diagnosis);
  return diagnosis;
}

}  // namespace millrace::pipeline
