#ifndef MILLRACE_PIPELINE_DIAGNOSIS_MODEL_H_
#define MILLRACE_PIPELINE_DIAGNOSIS_MODEL_H_

#include <array>
#include <limits>

#include "base/host_use.h"
#include "pipeline/diagnosis.h"
#include "pipeline/profile.h"

// The model: a pipeline delivers as many samples as the scarcest resource allows,
//
//   X = e min( p / d, k / (d + c), 1 / s, 1 / z, limits that the waits tell )
//
// with d the workers' processor time for a sample, c that of the rest of the process, p threads, k
// the cores that the process gets beside others, s the time of serial parts, z the consumer's. e is
// measured / modelled rate of today, near 1: a change is predicted relative to what is measured.
//
// or with the time in which the consumer wakes up, 1 / (z + h), where that is notable.
//
// Storage, budget and ring have no ceiling that could be known before it is reached, so they count
// only where the consumer waits for them; then they allow today's rate, or somewhat more if it
// waits for something else more often.

namespace millrace::pipeline {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Model {
  double rate = 0;  // samples per second, measured; 0: nothing was delivered
  // Seconds for a sample.
  double worker_seconds = 0;    // processor time of workers
  double other_seconds = 0;     // processor time of the process's other threads
  double serial_seconds = 0;    // work that one worker does at a time
  double consumer_seconds = 0;  // of the consumer between two batches
  double hand_off_seconds = 0;  // of the consumer to wake up; 0: nothing notable
  // Processors.
  double threads = 1;
  double threads_now = 1;  // those of the measurement
  double cores = 1;
  double foreign = 0;  // cores that others want, of these
  // Samples per second that each limit allows as the waits tell.
  std::array<double, kNumLimits> by_waits{};

  // Samples per second; kNoLimit: as many as one likes.
  double Allows(Limit limit) const;
  double least() const;
  // The cores that the process gets beside others. Threads that can run get equal times; but
  // systems share among groups of them too (sessions, containers), so that more threads bring less
  // the more others want, and nothing if those want twice the cores.
  double share() const;
  // The part of the lowest limit that is reached.
  double efficiency = 1;
  // The predicted rate: no more than the consumer takes, whose time is known best.
  double Rate() const;
};

// The fraction of the workers' time in items in which they had a processor.
double ProcessorShare(const PipelineProfile& profile);
// The seconds of the stretch in which the host was looked at.
double HostSeconds(const PipelineProfile& profile, const HostUse& host);
// The cores that others had of those that this program may use: its other processors take them in
// first.
double OtherCores(const PipelineProfile& profile, const HostUse& host,
                  const DiagnosisOptions& options);
// The samples over which the work of the stretch is spread.
double WorkedSamples(const PipelineProfile& profile);

Model MakeModel(const PipelineProfile& profile, const HostUse& host,
                const DiagnosisOptions& options);

// The limit behind a cause of waits.
Limit LimitOf(WaitCause cause);

// `number` if it is finite and positive, else 0.
double Sane(double number);
// a / b; 0 if b is not positive or the quotient is not a finite positive number.
double Ratio(double a, double b);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DIAGNOSIS_MODEL_H_
