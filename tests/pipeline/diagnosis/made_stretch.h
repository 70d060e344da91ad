#ifndef MILLRACE_TESTS_PIPELINE_DIAGNOSIS_MADE_STRETCH_H_
#define MILLRACE_TESTS_PIPELINE_DIAGNOSIS_MADE_STRETCH_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/host_use.h"
#include "pipeline/diagnosis.h"
#include "pipeline/profile.h"

namespace millrace::pipeline {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// A pipeline whose resources are known, and the stretch of time that would be measured of it. The
// consumer waits for each resource the more often the nearer it is to its limit.
struct MadeStretch {
  double seconds = 10;
  double threads = 1;
  double cores = 2;
  double worker_us = 1000;      // processor time for a sample
  double read_rate = kNever;    // samples per second that storage allows
  double budget_rate = kNever;  // that the memory budget allows
  double ring_rate = kNever;    // that the open batches allow
  int ring = 2;                 // open batches
  double serial_us = 1;
  double consumer_us = 1;  // the consumer's time for a sample
  double foreign = 0;      // threads of other programs that are always busy

  // The cores that the workers get: all threads that can run share them equally.
  double worker_cores() const { return threads * std::min(1.0, cores / (threads + foreign)); }
  std::array<double, 6> rates() const {
    return {1e6 * worker_cores() / worker_us,
            read_rate,
            budget_rate,
            ring_rate,
            1e6 / serial_us,
            1e6 / consumer_us};
  }
  double rate() const { return std::ranges::min(rates()); }

  PipelineProfile profile() const {
    PipelineProfile made;
    const double samples = std::floor(rate() * seconds);
    const auto ns = [](double us) { return static_cast<int64_t>(1e3 * us); };
    made.elapsed_ns = ns(1e6 * seconds);
    made.batches = static_cast<int64_t>(samples / 64);
    made.rows = made.worked_rows = static_cast<int64_t>(samples);
    made.workers = made.worker_goal = static_cast<int>(threads);
    made.goal_ns = ns(1e6 * seconds * threads);
    AddWork(samples, made);
    AddReads(samples, made);
    made.memory.limit_bytes = int64_t{1} << 30;
    made.memory.highest_bytes = budget_rate < kNever ? int64_t{1} << 30 : int64_t{1} << 26;
    made.memory.batch_bytes = 64 * 600'000;
    made.ring = made.ring_goal = ring;
    AddWaits(samples, made);
    return made;
  }
  HostUse host() const {
    HostUse made;
    const double samples = std::floor(rate() * seconds);
    made.now_seconds = seconds;
    made.user_seconds = 1e-6 * worker_us * samples;
    // Others have what they want, or their share.
    const double share = cores / std::max(cores, foreign + threads);
    made.busy_core_seconds = made.user_seconds + foreign * share * seconds;
    return made;
  }
  DiagnosisOptions options() const {
    DiagnosisOptions made;
    made.cores = made.processors = cores;
    made.unit = "img/s";
    made.settings = {"pipeline_threads: $0", "memory_budget_mib: $0", "prefetch { batches: $0 }"};
    return made;
  }
  Diagnosis Diagnosed() const { return Diagnose(profile(), host(), options()); }

 private:
  // Decoding takes 61 %, parsing 30 %, the rest is the executor's; 2 % are not attributed.
  void AddWork(double samples, PipelineProfile& made) const {
    const double on_core = worker_cores() / threads;
    const auto work = [&](double part) {
      return static_cast<int64_t>(1e3 * part * worker_us * samples / on_core);
    };
    made.busy_ns = work(1);
    made.clocked_ns = 1'000'000;
    made.clocked_cpu_ns = static_cast<int64_t>(1e6 * on_core);
    made.serial_ns = static_cast<int64_t>(1e3 * serial_us * samples);
    for (const auto& [stage, part] :
         {std::pair{"source", 0.30}, std::pair{"decode_image", 0.61}, std::pair{"batch", 0.02}}) {
      OpProfile op;
      op.stage = stage;
      op.busy_ns = work(part);
      op.sampled_rows = op.weighed_rows = 1000;
      op.bytes_in = op.bytes_out = 100'000'000;
      op.row_ns.Add(static_cast<uint64_t>(1e3 * part * worker_us));
      made.ops.push_back(op);
    }
    made.items[static_cast<size_t>(ItemKind::kPlan)] = {10, work(0.03)};
    made.items[static_cast<size_t>(ItemKind::kSubmit)] = {10, work(0.02)};
    made.items[static_cast<size_t>(ItemKind::kProcess)] = {10,
                                                           made.busy_ns - work(0.03) - work(0.02)};
  }
  void AddReads(double samples, PipelineProfile& made) const {
    const double busy = read_rate < kNever ? std::min(1.0, rate() / read_rate) : 0.05;
    made.reads.groups = made.reads.requests = static_cast<int64_t>(samples);
    made.reads.bytes = static_cast<int64_t>(100'000 * samples);
    made.reads.any_ns = static_cast<int64_t>(busy * static_cast<double>(made.elapsed_ns));
    made.reads.ns = 4 * made.reads.any_ns;
    made.reads.best_window_bytes = made.reads.bytes / 80;
  }
  // The last cause takes what rounding leaves over.
  void AddWaits(double samples, PipelineProfile& made) const {
    constexpr std::array kCauses = {WaitCause::kWork, WaitCause::kReading, WaitCause::kBudget,
                                    WaitCause::kRing, WaitCause::kOrder};
    const auto whole = made.elapsed_ns - static_cast<int64_t>(1e3 * consumer_us * samples);
    double sum = 0;
    std::array<double, 5> weights{};
    for (size_t i = 0; i < weights.size(); ++i)
      sum += weights[i] = std::pow(rate() / rates()[i], 8);
    int64_t left = std::max<int64_t>(0, whole);
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto part = static_cast<int64_t>(static_cast<double>(whole) * weights[i] / sum);
      const int64_t ns = i + 1 == weights.size() ? left : std::clamp<int64_t>(part, 0, left);
      made.wait_ns[static_cast<size_t>(kCauses[i])] = ns;
      left -= ns;
    }
  }
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_DIAGNOSIS_MADE_STRETCH_H_
