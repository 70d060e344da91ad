#ifndef MILLRACE_TRAINER_REPORT_H_
#define MILLRACE_TRAINER_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/reducer_counters.h"

// The lines that a training prints.

namespace millrace::trainer {

// Steps of one stretch of a run; times in seconds.
struct StepTimes {
  uint64_t steps = 0;
  int64_t samples = 0;  // over all ranks
  double step_seconds = 0;
  double wait_seconds = 0;  // the part of them spent waiting for the next batch

  void Add(int64_t num_samples, double step, double wait);
  double wait_fraction() const { return step_seconds > 0 ? wait_seconds / step_seconds : 0; }
};

// Counts of the gradients of one stretch of a run.
struct GradientNorms {
  uint64_t skipped = 0;  // steps whose gradients were not finite
  uint64_t clipped = 0;  // steps
  double largest = 0;    // norm of the steps that were not skipped; NaN once one was

  void Add(bool skip, double norm, float clip_factor);
};

struct StepLine {
  uint64_t step = 0;
  uint64_t total_steps = 0;
  double epoch = 0;
  double loss = 0;  // of an adversarial job the discriminator's
  std::optional<double> generator_loss;
  double learning_rate = 0;
  StepTimes times;
  GradientNorms norms;
  bool shows_norm = false;  // true if the norm is a part of the line
  std::string straggler;    // "rank 3 is awaited: ..."; empty: no rank worth mentioning
};

// "step 120/940  epoch 0.51  loss 0.4312  8123 img/s  step 31.5 ms  data wait 0.4 ms (1.3%)  lr
// 0.05", then, with a generator, "  generator loss 0.6931", and, if norms are shown or steps were
// skipped, "  norm 2.1500 (3 clipped)  skipped 1".
std::string FormatStep(const StepLine& line);

// "total: 940 steps, 240000 samples in 23.4 s of training; 10261 img/s without the first step",
// where the first step is not in `rest`; the rate is not shown if it was the only one.
std::string FormatTotal(const StepTimes& all, const StepTimes& rest);

// "reduction: 2 buckets, 8.4 MiB a step, 2.10 ms of work, 0.30 ms exposed (0.9% of step time on the
// rank that waited most)", with shards "  gathering shards: 0.40 ms", then a line for each of the
// first buckets.
std::vector<std::string> FormatReduction(const collectives::ReducerCounters& counters,
                                         double exposed_fraction);

struct EvaluationLine {
  std::optional<uint64_t> epoch;  // not shown if there is none
  int64_t correct = 0;
  int64_t total = 0;
  double mean_loss = 0;
  std::optional<int64_t> in_top5;    // not shown if there is none
  std::optional<double> mean_error;  // shown in place of the accuracy
  std::optional<double> auc;         // NaN: undefined; not shown if there is none
};

// "epoch 2: test accuracy 0.9012 (9012/10000), top-5 0.9950, loss 0.2801", "epoch 2: test error
// 0.1250 (mean absolute), loss 0.0301", or "epoch 2: test accuracy 0.7500 (75/100), AUC 0.8125,
// loss 0.5012".
std::string FormatEvaluation(const EvaluationLine& line);

// The weights that an evaluation or a prediction has taken.
struct WeightsUsed {
  std::string path;
  std::optional<uint64_t> step;  // of a checkpoint
  bool is_average = false;
};

// "weights: checkpoints/checkpoint-00000940.safetensors, step 940, their average".
std::string FormatWeights(const WeightsUsed& weights);

// Rows of "name  value", the names padded to one width.
std::vector<std::string> FormatTable(
    const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_REPORT_H_
