#include "trainer/server/run.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "trainer/job/servers.h"
#include "trainer/loop/session.h"
#include "trainer/ranks/agree.h"
#include "trainer/server/first_server.h"
#include "trainer/server/follower.h"
#include "trainer/server/placement.h"
#include "trainer/server/worker.h"

namespace millrace::trainer {
namespace {

using collectives::MessageServer;

constexpr size_t kMaxPlaceBytes = 1024;  // of one server: up to 16 addresses

absl::StatusOr<Job> ReadJob(const TrainOptions& options) {
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(const JobFile file,
                            LoadJob(options.job_path, options.variables, used, options.reduction,
                                    options.servers, options.device));
  return file.job;
}

std::string JoinNames(const Model& model, const std::vector<size_t>& parameters) {
  const auto name = [&model](std::string* out, size_t i) { *out += model.parameters[i].name; };
  return absl::StrJoin(parameters, ", ", name);
}

absl::StatusOr<TrainOutcome> OutcomeOf(ServerNode& node) {
  MILLRACE_ASSIGN_OR_RETURN(const ServerEnd end, node.Run());
  TrainOutcome outcome;
  outcome.stopped = end.is_stopped;
  outcome.checkpoint = end.checkpoint;
  return outcome;
}

absl::StatusOr<TrainOutcome> Serve(const TrainOptions& options, const Session& session,
                                   const ServerCluster& cluster,
                                   const std::vector<size_t>& parameters,
                                   std::unique_ptr<MessageServer> listening) {
  if (listening == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(listening, MessageServer::Listen(cluster.places[cluster.index]));
  }
  if (options.print) {
    options.print(absl::StrCat(NameOfServer(cluster, cluster.index), ": ",
                               JoinNames(session.model, parameters)));
  }
  if (cluster.index == 0) {
    FirstServer server(options, session.job, session.model, cluster, parameters,
                       std::move(listening));
    return OutcomeOf(server);
  }
  Follower server(options, session.job, session.model, cluster, parameters, std::move(listening));
  MILLRACE_RETURN_IF_ERROR(server.Follow());
  return OutcomeOf(server);
}

absl::StatusOr<TrainOutcome> Run(const TrainParts& parts, const TrainOptions& options,
                                 ServerTask& task) {
  Session session;
  MILLRACE_RETURN_IF_ERROR(LoadSessionFiles(options, task.local_ranks, session));
  if (!UsesServers(session.job.job)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.job_path, ": the job has no ", kServersField));
  }
  if (options.replicas > 1) {
    return absl::InvalidArgumentError(absl::StrCat("replicas do not go with ", kServersField));
  }
  if (!options.timeline_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a timeline does not go with ", kServersField));
  }
  if (!options.trace_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a trace does not go with ", kServersField));
  }
  const ServerCluster cluster = {task.workers, task.servers, task.is_server, task.index};
  MILLRACE_ASSIGN_OR_RETURN(const auto placed, PlaceParameters(session.model, cluster.servers()));
  if (task.is_server) {
    return Serve(options, session, cluster, placed[task.index], std::move(task.listening));
  }
  return Worker(parts, options, cluster, placed, session).Run();
}

// The place where this rank listens, if it is a server; padded to one size for all.
absl::StatusOr<std::string> PlaceOf(const collectives::Communicator& communicator, bool is_server,
                                    std::unique_ptr<MessageServer>& listening) {
  if (!is_server) return std::string(kMaxPlaceBytes, '\0');
  const bool is_one_host = communicator.local_size() == communicator.size();
  MILLRACE_ASSIGN_OR_RETURN(listening, MessageServer::Listen(is_one_host ? "" : "*"));
  std::string place = listening->places();
  place.resize(kMaxPlaceBytes, '\0');
  return place;
}

// The number of servers, the same on all ranks.
absl::StatusOr<int> CountServers(const TrainOptions& options,
                                 collectives::Communicator& communicator) {
  const absl::StatusOr<Job> job = ReadJob(options);
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator, job.status()));
  const uint32_t count = job->strategy().parameter_server().servers();
  const std::array<Setting, 1> setting = {{{"the number of servers", count}}};
  MILLRACE_RETURN_IF_ERROR(CheckSameSettings(communicator, setting));
  const auto servers = static_cast<int>(count);
  if (servers > 0 && servers < communicator.size()) return servers;
  return MarkAgreed(absl::InvalidArgumentError(absl::StrCat(
      options.job_path, ": ", kServersField, ".servers: ", servers, " of ", communicator.size(),
      communicator.size() == 1 ? " rank leaves" : " ranks leave", " no worker")));
}

}  // namespace

absl::StatusOr<bool> UsesParameterServers(const TrainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const Job job, ReadJob(options));
  return UsesServers(job);
}

absl::StatusOr<ServerTask> SplitRanks(const TrainOptions& options,
                                      collectives::Communicator& communicator) {
  if (communicator.timeout().count() == 0) communicator.set_timeout(options.start_timeout);
  MILLRACE_ASSIGN_OR_RETURN(const int servers, CountServers(options, communicator));
  ServerTask task;
  task.workers = communicator.size() - servers;
  task.is_server = communicator.rank() >= task.workers;
  task.index = communicator.rank() - (task.is_server ? task.workers : 0);
  task.local_ranks = communicator.local_size();
  absl::StatusOr<std::string> place = PlaceOf(communicator, task.is_server, task.listening);
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator, place.status()));
  std::string all(kMaxPlaceBytes * static_cast<size_t>(communicator.size()), '\0');
  const auto view = [](std::string& text) {
    return TensorView{text.data(), DType::kU8, Shape{static_cast<int64_t>(text.size())}};
  };
  MILLRACE_RETURN_IF_ERROR(communicator.AllGather(view(*place), view(all)));
  for (int rank = task.workers; rank < communicator.size(); ++rank) {
    task.servers.emplace_back(all.c_str() + kMaxPlaceBytes * static_cast<size_t>(rank));
  }
  return task;
}

absl::StatusOr<TrainOutcome> TrainOnServers(const TrainOptions& options, ServerTask task) {
  return TrainOnServersWith(TrainParts(), options, std::move(task));
}

absl::StatusOr<TrainOutcome> TrainOnServersWith(const TrainParts& parts,
                                                const TrainOptions& options, ServerTask task) {
  absl::StatusOr<TrainOutcome> outcome = TrainOutcome();
  absl::Status status = WithoutExceptions([&] {
    outcome = Run(parts, options, task);
    return outcome.status();
  });
  if (status.ok()) return outcome;
  status = Annotate(status, absl::StrCat(task.is_server ? "server " : "worker ", task.index));
  if (options.report) {
    (void)WithoutExceptions([&] {
      options.report(status);
      return absl::OkStatus();
    });
  }
  return status;
}

}  // namespace millrace::trainer
