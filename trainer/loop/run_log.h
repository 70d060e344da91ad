#ifndef MILLRACE_TRAINER_LOOP_RUN_LOG_H_
#define MILLRACE_TRAINER_LOOP_RUN_LOG_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer_counters.h"
#include "collectives/stragglers.h"
#include "pipeline/diagnosis.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/session.h"
#include "trainer/rank_view.h"
#include "trainer/report.h"
#include "trainer/train.h"

namespace millrace::trainer {

// Counts the costs and results of a run's steps, and prints the run's lines, on rank 0 only. Makes
// no collective call: the caller brings numbers over all ranks. Thread-compatible.
class RunLog {
 public:
  // All outlive it.
  RunLog(const TrainOptions& options, const collectives::Communicator& communicator,
         const Session& session);

  void PrintStart() const;

  // How long each rank waited for others in the step before the one that begins.
  void AddWaits(std::span<const double> waits);

  struct Step {
    int64_t rows = 0;     // over all ranks
    double loss_sum = 0;  // this rank's; of an adversarial job the discriminator's
    double generator_loss_sum = 0;
    double seconds = 0;
    double wait_seconds = 0;  // the part of them spent waiting for batches
  };
  void AddStep(const Step& step, const collectives::StepOutcome& outcome);

  // This rank's part of the last step's loss that was not skipped.
  double last_loss() const { return last_loss_; }
  double last_generator_loss() const { return last_generator_loss_; }

  // The values of a line about the steps since the last line: this rank's part, or over all ranks.
  struct Window {
    double mean_loss = 0;  // the sum over ranks; NaN: all steps were skipped
    double mean_generator_loss = 0;
    double wait_seconds = 0;  // the largest of the ranks
  };
  Window window() const;
  // Prints the line of the steps up to the session's state, and begins a new window.
  void PrintWindow(const Window& over_ranks);

  RankFigures figures() const;

  void PrintEvaluation(const Evaluation& evaluation) const;

  // Fractions of the steps' time: this rank's, or those of the rank that waited most.
  struct Fractions {
    double data_wait = 0;  // waiting for batches, without the first step
    double exposed = 0;    // waiting for sums
  };
  Fractions fractions(const collectives::ReducerCounters& counters) const;
  std::optional<collectives::Straggler> straggler() const { return total_stragglers_.Slowest(); }
  // `diagnosis` is of this rank's training pipeline, or nullopt. `threads`: how many it has come to
  // use (PipelineThreads::Describe); empty: their limit was fixed.
  void PrintTotal(const TrainOutcome& outcome, double exposed_fraction,
                  const std::optional<pipeline::Diagnosis>& diagnosis,
                  const std::string& threads) const;

 private:
  void Print(const std::string& line) const;
  void PrintVerdict(const pipeline::Diagnosis& diagnosis, const std::string& threads) const;
  // All steps.
  StepTimes times() const;
  // Prints the cost of communication, if there was any.
  void PrintReduction(const TrainOutcome& outcome, double exposed_fraction) const;

  const TrainOptions& options_;
  const collectives::Communicator& communicator_;
  const Session& session_;

  // since the last line
  StepTimes window_;
  GradientNorms norms_;
  double window_loss_ = 0;  // this rank's parts, summed
  double window_generator_loss_ = 0;
  collectives::Stragglers window_stragglers_;

  StepTimes first_;  // the first step
  StepTimes total_;  // the others
  collectives::Stragglers total_stragglers_;
  std::optional<double> printed_loss_;  // of the last line
  double last_loss_ = 0;
  double last_generator_loss_ = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_RUN_LOG_H_
