#ifndef MILLRACE_TRAINER_LOOP_SESSION_H_
#define MILLRACE_TRAINER_LOOP_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/context.h"
#include "collectives/communicator.h"
#include "collectives/gradient_reducer.h"
#include "collectives/progress.h"
#include "pipeline/device_feed.h"
#include "pipeline/pipeline.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/tuning/tuned_plans.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/job/job.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/parts.h"
#include "trainer/loop/pipeline_threads.h"
#include "trainer/loop/plan_file.h"
#include "trainer/loop/steps.h"
#include "trainer/loop/trained_model.h"
#include "trainer/model/model.h"
#include "trainer/ranks/step_sums.h"
#include "trainer/telemetry/telemetry.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The state of a training run on one rank, opened and checked. Members are destroyed in reverse
// order.
struct Session {
  JobFile job;
  Model model;  // of several that are trained, the layers of all
  std::optional<pipeline::Plan> train_plan;
  std::optional<pipeline::Plan> eval_plan;  // nullopt: no evaluation
  PlanNumbers train_numbers;
  PlanNumbers eval_numbers;
  CoreSplit cores;
  std::string cores_source;  // the limit of the cores: "affinity", ...
  int least_cores = 1;       // usable on the host that has the fewest
  int most_cores = 1;
  std::shared_ptr<Context> context;
  std::string quarantine_file;                      // quarantine of both pipelines
  std::function<void(std::string_view line)> warn;  // TrainOptions'
  WriteFunction write_checkpoint;                   // TrainParts'
  ThreadTrialOptions thread_trials;                 // TrainParts'
  std::unique_ptr<pipeline::Pipeline> train;        // null: the feed has it
  StepPlan steps;
  std::unique_ptr<Telemetry> telemetry;

  TrainState state;
  std::string resumed_from;                    // path of the checkpoint; empty: a fresh start
  std::unique_ptr<cuda::Device> device;        // null: the CPU computes
  std::unique_ptr<cuda::TunedPlans> tuned;     // null: the device chooses the plans of products
  std::unique_ptr<pipeline::DeviceFeed> feed;  // null: batches stay in the host's memory
  int ordinal = 0;                             // of the device within its host
  // The ranks by their devices, which sum gradients; null: the ranks' own group does.
  std::unique_ptr<collectives::Communicator> device_group;
  std::unique_ptr<collectives::ReducerTeam> team;  // of several models; null: there is one
  std::unique_ptr<StepSums> sums;                  // null: no layer needs other ranks
  std::vector<TrainedModel> models;  // at least one; they share the steps and the state

  // The model that reads the pipelines.
  TrainedModel& main() { return models[0]; }
  const TrainedModel& main() const { return models[0]; }
  // The training pipeline, wherever it is.
  pipeline::Pipeline& train_pipeline() const { return feed != nullptr ? feed->pipeline() : *train; }
};

// The parts of its evaluation. They borrow from the session, which has an evaluation plan.
EvaluationParts EvaluationPartsOf(const Session& session);

// Opens a training: reads the files, finds and loads the checkpoint, opens the pipeline at its
// position, and makes the model, the strategy, which reports to `progress`, and the backend.
// Collective; the outcomes are Train's. If a rank fails, all ranks return its error.
absl::StatusOr<std::unique_ptr<Session>> OpenSession(const TrainOptions& options,
                                                     collectives::Communicator& communicator,
                                                     collectives::Progress& progress,
                                                     const TrainParts& parts);

// The parts of opening that need no other rank, for trainings whose ranks do not go in step.
// Reads and checks the files of a job, and makes its state, without tensors. `local_ranks` share
// the cores of this host.
absl::Status LoadSessionFiles(const TrainOptions& options, int local_ranks, Session& session);
// Opens the training pipeline for the slice `rank` of `world` behind the state's token, and works
// out the steps.
absl::Status OpenTrainPipeline(const TrainOptions& options, int rank, int world, Session& session);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_SESSION_H_
