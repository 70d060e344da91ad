#include "trainer/loop/describe.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/host.h"
#include "trainer/job/reduction.h"
#include "trainer/optimizer/loss_scale.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/parameter_groups.h"
#include "trainer/report.h"

namespace millrace::trainer {
namespace {

std::string Ranks(const TrainOptions& options, const collectives::Communicator& communicator) {
  std::string text = absl::StrCat(communicator.size(), " (", communicator.local_size(),
                                  " on this host), ", std::string(communicator.backend()));
  if (!options.launch_reason.empty()) absl::StrAppend(&text, "; ", options.launch_reason);
  return text;
}

std::string CoresOf(const Session& session) {
  const CoreSplit& cores = session.cores;
  std::string text = absl::StrCat(cores.usable, " usable (", session.cores_source, "), ",
                                  cores.per_rank, " per rank: ", cores.compute, " compute, ",
                                  cores.PipelineText(), " pipeline at batch priority");
  if (session.least_cores != session.most_cores) {
    absl::StrAppend(&text, "; the ranks differ: ", session.least_cores, "..", session.most_cores,
                    " usable");
  }
  return text;
}

std::string EvaluationOf(const Session& session) {
  if (!session.eval_plan) return "none";
  const uint64_t batch = session.eval_numbers.batch;
  return absl::StrCat(session.job.eval_path, ", batches of ",
                      batch > 0 ? absl::StrCat(batch) : "several sizes", ", after each epoch");
}

std::string Checkpoints(const JobFile& job) {
  const CheckpointPolicy& policy = job.job.checkpoint();
  if (job.checkpoint_folder.empty()) return "none";
  std::string text = job.checkpoint_folder;
  if (policy.every_steps() > 0) {
    absl::StrAppend(&text, ", every ", policy.every_steps(), " steps");
  }
  if (policy.every_epochs() > 0) {
    absl::StrAppend(&text, ", every ", policy.every_epochs(), " epochs");
  }
  absl::StrAppend(&text, ", at the end; the newest ", policy.keep());
  if (policy.keep_best() > 0) absl::StrAppend(&text, " and the best ", policy.keep_best());
  return text + " stay";
}

// A text of each model; of several, with its role.
std::string ByModel(const Session& session,
                    const std::function<std::string(const TrainedModel& trained)>& text) {
  const auto append = [&text](std::string* out, const TrainedModel& trained) {
    absl::StrAppend(out, trained.role, trained.role.empty() ? "" : ": ", text(trained));
  };
  return absl::StrJoin(session.models, "; ", append);
}

std::string ModelsOf(const Session& session) {
  std::string text = session.job.model_path;
  if (session.models.size() > 1) {
    const auto append = [](std::string* out, const ModelFile& file) {
      absl::StrAppend(out, file.role, ": ", file.path);
    };
    text = absl::StrJoin(session.job.models, "; ", append);
  }
  return absl::StrFormat("%s, %d parameters, fingerprint %016x", text,
                         session.model.num_parameters(), session.state.model_fingerprint);
}

std::string RateOf(const TrainedModel& trained) {
  return absl::StrFormat("%g after scaling; %s", trained.schedule->full_rate(),
                         trained.schedule->Describe());
}

std::string AverageOf(const TrainedModel& trained) {
  const OptimizerSpec& optimizer = trained.optimizer;
  if (!optimizer.has_ema()) return "none";
  return absl::StrFormat("decay %g%s, evaluated", optimizer.ema().decay(),
                         optimizer.ema().warmup() ? " after warm-up" : "");
}

}  // namespace

std::string DescribeFirstWeights(const JobFile& job) {
  if (job.init_path.empty()) return "drawn by the seed";
  const auto& except = job.job.init_from().except();
  if (except.empty()) return job.init_path;
  return absl::StrCat(job.init_path, ", except ", absl::StrJoin(except, ", "));
}

std::vector<std::string> DescribeSession(const Session& session, const TrainOptions& options,
                                         const collectives::Communicator& communicator) {
  const Job& job = session.job.job;
  const uint64_t batch = session.state.global_batch;
  const int ranks = communicator.size();
  const uint32_t ahead = session.train_numbers.prefetch;
  return FormatTable({
      {"job", options.job_path},
      {"variables", options.variables.empty()
                        ? "none"
                        : absl::StrJoin(options.variables, ", ", absl::PairFormatter("="))},
      {"ranks", Ranks(options, communicator)},
      {"cores", CoresOf(session)},
      {"I/O", absl::StrCat(session.cores.io, " threads per rank")},
      {"processor", absl::StrCat(CpuModel(), ", ", WidestIsa())},
      {"backend", session.main().backend->Describe()},
      {"model", ModelsOf(session)},
      {"gradients",
       ByModel(session, [](const TrainedModel& of) { return of.strategy->Summary(); })},
      {"reduction", Describe(job.reduction())},
      {"loss scaling", job.has_loss_scaling() ? DescribeLossScaling(job.loss_scaling()) : "none"},
      {"batch", absl::StrCat(batch, " global, ", (batch + ranks - 1) / ranks, " per rank at most, ",
                             ahead == 0 ? "2 to 16 (small ones)" : absl::StrCat(ahead), " ahead")},
      {"epochs", job.epochs() > 0 ? absl::StrCat(job.epochs()) : "until the pipeline ends"},
      {"steps", absl::StrCat(session.steps.steps_per_epoch, " per epoch, ",
                             session.steps.total_steps, " in all, ", session.state.step, " done")},
      {"learning rate", ByModel(session, RateOf)},
      {"optimizer",
       ByModel(session, [](const TrainedModel& of) { return DescribeOptimizer(of.optimizer); })},
      {"weight average", ByModel(session, AverageOf)},
      {"parameter groups",
       ByModel(session,
               [](const TrainedModel& of) { return DescribeGroups(of.optimizer, of.model); })},
      {"seeds", absl::StrCat(job.seed(), " of the weights, ", session.train_numbers.seed,
                             " of the pipeline")},
      {"training plan", absl::StrFormat("%s, fingerprint %016x", session.job.train_path,
                                        session.state.plan_fingerprint)},
      {"training data", absl::StrFormat("fingerprint %016x", session.state.data_fingerprint)},
      {"evaluation", EvaluationOf(session)},
      {"memory budget", absl::StrCat(job.memory_budget_mib(), " MiB for what the pipelines hold")},
      {"log", absl::StrCat("every ", job.log_every_steps(), " steps")},
      {"checkpoints", Checkpoints(session.job)},
      {"first weights", DescribeFirstWeights(session.job)},
      {"resumed from", session.resumed_from.empty() ? "nothing" : session.resumed_from},
  });
}

}  // namespace millrace::trainer
