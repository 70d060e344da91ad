#include "trainer/server/describe.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/host.h"
#include "trainer/job/servers.h"
#include "trainer/loop/describe.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/parameter_groups.h"
#include "trainer/report.h"

namespace millrace::trainer {
namespace {

constexpr size_t kBar = 40;  // characters of the longest bar

std::string BarOf(uint64_t count, uint64_t most) {
  return std::string(static_cast<size_t>(count * kBar / std::max<uint64_t>(1, most)), '#');
}

}  // namespace

std::string DescribeStrategy(const ParameterServer& spec, int workers) {
  if (!spec.synchronous()) {
    return absl::StrCat("asynchronous: an update for each gradient, at most ",
                        MaxStaleness(spec, workers), " updates late");
  }
  if (spec.backup_workers() == 0) return "synchronous: the bits of ranks that go in step";
  return absl::StrCat("synchronous: the first ",
                      std::max(1, workers - static_cast<int>(spec.backup_workers())),
                      " gradients of an update");
}

std::vector<std::string> DescribeServers(const Session& session, const TrainOptions& options,
                                         const ServerCluster& cluster) {
  const Job& job = session.job.job;
  const CoreSplit& cores = session.cores;
  std::string places = absl::StrJoin(cluster.places, "; ");
  return FormatTable({
      {"job", options.job_path},
      {"variables", options.variables.empty()
                        ? "none"
                        : absl::StrJoin(options.variables, ", ", absl::PairFormatter("="))},
      {"workers", absl::StrCat(cluster.workers, options.launch_reason.empty() ? "" : "; ",
                               options.launch_reason)},
      {"servers", absl::StrCat(cluster.servers(), " at ", places)},
      {"strategy", DescribeStrategy(job.strategy().parameter_server(), cluster.workers)},
      {"cores", absl::StrCat(cores.usable, " usable (", session.cores_source, "), ", cores.compute,
                             " compute, ", cores.PipelineText(), " pipeline")},
      {"processor", absl::StrCat(CpuModel(), ", ", WidestIsa())},
      {"backend", session.main().backend->Describe()},
      {"model", absl::StrFormat("%s, %d parameters, fingerprint %016x", session.job.model_path,
                                session.model.num_parameters(), session.state.model_fingerprint)},
      {"batch", absl::StrCat(session.state.global_batch, " of all workers")},
      {"updates",
       absl::StrCat(session.steps.steps_per_epoch, " per epoch, ", session.steps.total_steps,
                    " in all, ", session.state.step, " done")},
      {"learning rate",
       absl::StrFormat("%g after scaling; %s", session.main().schedule->full_rate(),
                       session.main().schedule->Describe())},
      {"optimizer", DescribeOptimizer(job.optimizer())},
      {"parameter groups", DescribeGroups(job.optimizer(), session.model)},
      {"seeds", absl::StrCat(job.seed(), " of the weights, ", session.train_numbers.seed,
                             " of the pipeline")},
      {"training plan", absl::StrFormat("%s, fingerprint %016x", session.job.train_path,
                                        session.state.plan_fingerprint)},
      {"training data", absl::StrFormat("fingerprint %016x", session.state.data_fingerprint)},
      {"evaluation", session.eval_plan ? session.job.eval_path : "none"},
      {"checkpoints",
       session.job.checkpoint_folder.empty() ? "none" : session.job.checkpoint_folder},
      {"first weights", DescribeFirstWeights(session.job)},
      {"resumed from", session.resumed_from.empty() ? "nothing" : session.resumed_from},
  });
}

std::vector<std::string> DescribeCounts(const ServerCounts& counts) {
  const std::vector<uint64_t>& staleness = counts.staleness;
  const uint64_t used = std::accumulate(staleness.begin(), staleness.end(), uint64_t{0});
  const uint64_t most = staleness.empty() ? 0 : std::ranges::max(staleness);
  std::vector<std::string> lines = {
      absl::StrCat("gradients: ", used, " used, ", counts.dropped, " dropped")};
  for (size_t i = 0; i < staleness.size(); ++i) {
    lines.push_back(
        absl::StrFormat("  staleness %3d: %8d  %s", i, staleness[i], BarOf(staleness[i], most)));
  }
  if (counts.lost > 0) {
    lines.push_back(
        absl::StrCat("workers: ", counts.lost, " lost, ", counts.joined, " joined in their place"));
  }
  if (counts.unread > 0) {
    lines.push_back(absl::StrCat("unread: ", counts.unread, " batches of workers"));
  }
  return lines;
}

}  // namespace millrace::trainer
