#ifndef MILLRACE_TRAINER_JOB_JOB_H_
#define MILLRACE_TRAINER_JOB_JOB_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/performance.h"
#include "pipeline/plan.h"
#include "pipeline/text_proto.h"
#include "trainer/job/job.pb.h"
#include "trainer/train.h"

namespace millrace::trainer {

// A model that a job trains.
struct ModelFile {
  std::string path;
  std::string role;  // "generator" or "discriminator"; empty: it is the only one
  OptimizerSpec optimizer;
};

// A job with its paths resolved, and its defaults filled in but for those of FillFromPlan.
struct JobFile {
  Job job;
  pipeline::TextLocations places;  // of the fields in the file
  // Of an adversarial job the discriminator, which reads the plan, and the generator.
  std::vector<ModelFile> models;
  std::string model_path;  // of the only model; empty: there are several
  std::string train_path;
  std::string eval_path;          // empty: no evaluation
  std::string checkpoint_folder;  // empty: no checkpoints
  std::string init_path;          // the file of the first weights; empty: they are drawn
  std::string text;               // the job with its variables and defaults filled in
  // The same without the fields that do not change the weights after a given step: files (model,
  // plan and data have fingerprints), performance fields, output, and, unless learning rates depend
  // on the last step, the number of epochs. Checkpoints store it.
  std::string weights_text;
};

// The difference of two texts of jobs (either kind): "optimizer.base_lr: 0.1 -> 0.05".
std::string CompareJobs(const std::string& before, const std::string& now);

// The changes of a job since a checkpoint.
struct JobChanges {
  // "epochs: 2 -> 3" if the weights depend on the number of steps; a training may go on with it.
  std::string length;
  // The other changes; a training goes on with them only by force. Empty: none.
  std::vector<std::string> others;
};

// Compares the JobFile::weights_text of a checkpoint with that of now.
JobChanges ChangesOfJob(const std::string& before, const std::string& now);

// Reads a job; `reduction`, `servers`, fields of its parameter_server, and `device`, unless it is
// empty, take precedence over the file.
//   NOT_FOUND         no such file
//   INVALID_ARGUMENT  "FILE:LINE:COLUMN: ..." for text that does not parse, and
//                     "FILE:LINE:COLUMN: FIELD: ..." for a value that is out of range, or that
//                     contradicts another; without a place for a value of `reduction`
// The variables that it names are added to `used`.
absl::StatusOr<JobFile> LoadJob(const std::string& path, const pipeline::Variables& variables,
                                std::set<std::string>& used,
                                std::span<const FieldValue> reduction = {},
                                std::span<const FieldValue> servers = {},
                                const std::string& device = "");

// True if a GPU computes.
inline bool UsesCuda(const Job& job) { return job.device() == "cuda"; }

// True if the plans of a GPU's products are chosen by their time.
inline bool TunesPlans(const Job& job) { return job.cudnn_plans() == "tuned"; }

// Fills in threads and memory of the pipelines where the job leaves them open: as its plan says,
// else the default.
void FillFromPlan(const pipeline::Performance& said, Job& job);

// The division of one rank's cores.
struct CoreSplit {
  int usable = 1;    // cores of the host that this process may use
  int per_rank = 1;  // cores for this rank
  int compute = 1;
  int pipeline = 1;  // threads of SCHED_BATCH, which run when compute leaves a core idle
  // The most threads of the pipeline, and the most when it begins.
  int pipeline_most = 1;
  int pipeline_first = 1;
  int io = 4;  // threads, not cores: they wait for a device

  // "1 to 4", or "1" if it may take no more.
  std::string PipelineText() const;
};

// A rank with four cores or more leaves a quarter of them to the pipeline. With fewer, compute
// keeps all, and the pipeline's threads run in the gaps: as SCHED_BATCH they cost compute little,
// while losing a core would cost it a third or half. The pipeline takes as many threads as it
// needs, up to `pipeline_threads`, or to that quarter where it is 0. Threads of compute never
// depend on those of the pipeline, since bits do on them.
CoreSplit SplitCores(int usable, int local_ranks, int threads, int pipeline_threads);

// The same, but a pipeline whose `pipeline_threads` is 0 begins with the quarter and may come to
// use all cores of the rank, for a trainer that tries whether more of them help.
CoreSplit SplitCoresToGrow(CoreSplit split, int pipeline_threads);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_JOB_H_
