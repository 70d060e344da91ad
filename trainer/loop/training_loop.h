#ifndef MILLRACE_TRAINER_LOOP_TRAINING_LOOP_H_
#define MILLRACE_TRAINER_LOOP_TRAINING_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "pipeline/pipeline.h"
#include "trainer/loop/batch_step.h"
#include "trainer/loop/pipeline_threads.h"
#include "trainer/loop/pipeline_watch.h"
#include "trainer/loop/run_log.h"
#include "trainer/loop/run_saver.h"
#include "trainer/loop/running_rank.h"
#include "trainer/loop/running_step.h"
#include "trainer/loop/session.h"
#include "trainer/loop/train_batch.h"
#include "trainer/ranks/guard.h"
#include "trainer/ranks/waiting.h"
#include "trainer/telemetry/trace_window.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The steps of a training on one rank.
class TrainingLoop {
 public:
  // All outlive it.
  TrainingLoop(const TrainOptions& options, collectives::Communicator& communicator, Guard& guard,
               Session& session)
      : options_(options),
        communicator_(communicator),
        guard_(guard),
        session_(session),
        log_(options, communicator, session),
        saver_(communicator, guard, session),
        watch_(session),
        threads_(session.cores.pipeline_first, session.cores.pipeline_most, session.thread_trials),
        observed_(options, communicator.rank(), communicator.size(), session),
        batch_step_(MakeBatchStep(session, communicator)),
        begun_(session.state.step) {}

  // Runs all steps that are left, with their evaluations and checkpoints. Collective; the outcomes
  // are Train's.
  absl::StatusOr<TrainOutcome> Run();

  // Runs the next step, of which the batch is begun; REQUIRED: !IsOver().
  absl::Status Step();
  // True once all steps of the job are begun.
  bool IsOver() const { return begun_ >= session_.steps.total_steps; }
  RankFigures figures() const { return log_.figures(); }

  RunSaver& saver() { return saver_; }
  // The newest step that this rank has said to be in.
  int64_t place() const { return place_; }

 private:
  // Reports that this rank waits while ranks talk to each other outside of the reducer.
  Waiting Wait() const { return Waiting(&guard_.progress(), place_); }
  absl::StatusOr<std::optional<TrainBatch>> AwaitBatch(RunningStep& running, bool is_first);
  // True if at least one rank said so.
  struct Told {
    bool failed = false;
    bool stop = false;
    bool trace_is_over = false;
  };
  absl::StatusOr<Told> TellPeers(bool failed, bool stop, bool begins_step);
  absl::Status Check(const absl::StatusOr<std::optional<TrainBatch>>& batch) const;
  // Returns false if some rank was asked to stop.
  absl::StatusOr<bool> RunBatches(RunningStep& step);
  // Stands for a batch that the last step of an epoch lacks.
  absl::Status FinishEmptyBatch();
  // Updates the weights by the sums of the `i`th step that is ready.
  absl::Status Update(size_t i);
  // Averages what has not been averaged yet; this rank is said to do `after` behind it.
  absl::Status AverageStatistics(RunningStep& step, collectives::Phase after);
  void AdaptThreads(const RunLog::Step& counted);
  absl::Status CountSkips(bool skipped);
  absl::Status CompareWeights();
  absl::Status TellOfWeights();
  absl::Status Log();
  absl::Status AfterStep();
  absl::Status EvaluateNow();
  absl::Status WriteTrace();
  absl::Status Finish();

  const TrainOptions& options_;
  collectives::Communicator& communicator_;
  Guard& guard_;
  Session& session_;
  RunLog log_;
  RunSaver saver_;
  PipelineWatch watch_;  // begins on rank 0 only, behind the first step
  PipelineThreads threads_;
  const Observed observed_;
  const std::unique_ptr<BatchStep> batch_step_;
  TrainOutcome outcome_;
  uint64_t begun_;     // number of steps, with those that are under way
  int64_t place_ = 0;  // the newest step that this rank has said to be in
  std::deque<RunningStep> under_way_;
  double peers_seconds_ = 0;  // time until the other ranks had the step's batches too
  uint64_t skipped_in_a_row_ = 0;
  std::vector<double> flags_;         // of NextBatch
  std::optional<TraceWindow> trace_;  // nullopt: none is wanted
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_TRAINING_LOOP_H_
