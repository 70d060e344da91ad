#include "trainer/replicas.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/affinity.h"
#include "base/host.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/factory.h"
#include "collectives/peer_lost.h"
#include "collectives/replicas.h"
#include "trainer/job/job.h"
#include "trainer/loop/parts.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/core_shares.h"
#include "trainer/ranks/start_limit.h"

namespace millrace::trainer {

using collectives::Communicator;

namespace {

// The number of replicas of each process, which all have agreed on.
absl::StatusOr<int> AgreeOnReplicas(const TrainOptions& options, Communicator& processes) {
  int replicas = options.replicas;
  const absl::Status mine = WithoutExceptions([&] {
    if (!options.devices.empty()) replicas = static_cast<int>(options.devices.size());
    if (replicas != 0) return absl::OkStatus();
    std::set<std::string> used;
    MILLRACE_ASSIGN_OR_RETURN(const JobFile job, LoadJob(options.job_path, options.variables, used,
                                                         options.reduction, {}, options.device));
    replicas = std::max<int>(1, static_cast<int>(job.job.strategy().mirrored().replicas()));
    return absl::OkStatus();
  });
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(processes, mine));
  const std::array<Setting, 1> settings = {
      {{"the number of replicas", static_cast<uint64_t>(replicas)}}};
  MILLRACE_RETURN_IF_ERROR(CheckSameSettings(processes, settings));
  return replicas;
}

// The replicas of this process, and the cores of each; no cores: nobody is bound.
struct Group {
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::vector<std::vector<int>> cores;
};

absl::StatusOr<Group> MakeGroup(const TrainOptions& options, Communicator& processes,
                                int replicas) {
  Group group;
  MILLRACE_ASSIGN_OR_RETURN(group.ranks,
                            collectives::MakeReplicas(processes, replicas, options.start_timeout));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<ProcessCores> cores, GatherCores(processes));
  group.cores = ShareCores(cores, static_cast<size_t>(processes.rank()), replicas);
  return group;
}

// The options of a replica that is bound to `cores`, or to none.
TrainOptions OptionsOf(const TrainOptions& options, const std::vector<int>& cores,
                       const Communicator& processes, int replicas, size_t replica) {
  TrainOptions own = options;
  own.replicas = replicas;
  if (!options.devices.empty()) own.devices = {options.devices[replica]};
  const int usable = std::max(1, ReadCores().usable / replicas);
  if (own.threads == 0 && !cores.empty()) {
    own.threads = std::min(static_cast<int>(cores.size()), usable);
  }
  own.launch_reason = absl::StrCat(
      processes.size(), processes.size() == 1 ? " process" : " processes", " of ", replicas,
      " replicas, ", cores.empty() ? "not bound to cores" : "each bound to its cores",
      options.launch_reason.empty() ? "" : "; ", options.launch_reason);
  return own;
}

// The outcome of the process: a failure of its own, else what a replica has of the others, else
// that of the first replica.
absl::StatusOr<TrainOutcome> OutcomeOf(std::vector<absl::StatusOr<TrainOutcome>> outcomes) {
  const auto find = [&outcomes](auto wanted) {
    return std::ranges::find_if(outcomes, [wanted](const absl::StatusOr<TrainOutcome>& outcome) {
      return !outcome.ok() && wanted(outcome.status());
    });
  };
  auto found = find([](const absl::Status& status) {
    return !absl::IsCancelled(status) && !collectives::PeerLostOf(status);
  });
  if (found == outcomes.end()) {
    found = find([](const absl::Status& status) { return !absl::IsCancelled(status); });
  }
  if (found == outcomes.end()) found = find([](const absl::Status&) { return true; });
  return found == outcomes.end() ? std::move(outcomes[0]) : std::move(*found);
}

absl::StatusOr<TrainOutcome> RunGroup(const RankTrainer& train, const TrainOptions& options,
                                      const Communicator& processes, Group group) {
  const auto replicas = static_cast<int>(group.ranks.size());
  std::vector<absl::StatusOr<TrainOutcome>> outcomes(group.ranks.size());
  const absl::Status started =
      collectives::RunGroup(std::move(group.ranks), [&](Communicator& rank) {
        const auto replica = static_cast<size_t>(rank.rank() % replicas);
        std::vector<int> cores;
        if (!group.cores.empty() && BindThread(group.cores[replica])) cores = group.cores[replica];
        outcomes[replica] = train(OptionsOf(options, cores, processes, replicas, replica), rank);
        return absl::OkStatus();  // Train has told the others
      });
  MILLRACE_RETURN_IF_ERROR(started);
  return OutcomeOf(std::move(outcomes));
}

}  // namespace

absl::StatusOr<TrainOutcome> TrainReplicasWith(const RankTrainer& train,
                                               const TrainOptions& options,
                                               Communicator& processes) {
  absl::StatusOr<Group> group = Group{};
  int replicas = 1;
  const absl::Status opened = WithoutExceptions([&] {
    const StartLimit limit(processes, options.start_timeout);
    MILLRACE_ASSIGN_OR_RETURN(replicas, AgreeOnReplicas(options, processes));
    if (replicas > 1) group = MakeGroup(options, processes, replicas);
    return group.status();
  });
  if (!opened.ok()) {
    const bool tells = !IsAgreed(opened) || processes.rank() == 0;
    if (tells && options.report) options.report(opened);
    return opened;
  }
  if (replicas == 1) return train(options, processes);
  // They were made within the start's limit.
  for (const auto& rank : group->ranks) rank->set_timeout(processes.timeout());
  absl::StatusOr<TrainOutcome> outcome = RunGroup(train, options, processes, *std::move(group));
  // MPI would wait at its end for processes that are lost.
  if (!outcome.ok() && !IsAgreed(outcome.status())) processes.Leave(outcome.status());
  return outcome;
}

absl::StatusOr<TrainOutcome> TrainReplicas(const TrainOptions& options, Communicator& processes) {
  return TrainReplicasWith(Train, options, processes);
}

}  // namespace millrace::trainer
