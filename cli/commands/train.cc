#include "trainer/train.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/metrics.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/live_train.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"
#include "cli/flags/device.h"
#include "cli/flags/launch.h"
#include "cli/flags/reduction.h"
#include "cli/flags/servers.h"
#include "cli/flags/trace.h"
#include "cli/metrics/exporters.h"
#include "cli/metrics/metrics_server.h"
#include "cli/wait/display.h"
#include "cli/wait/stop_signals.h"
#include "cli/wait/unbounded_watch.h"
#include "collectives/factory.h"
#include "collectives/peer_lost.h"
#include "trainer/parameter_server.h"
#include "trainer/rank_view.h"
#include "trainer/replicas.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::string job;
  std::vector<std::string> variables;
  bool resume = false;
  bool force = false;
  int threads = 0;
  int replicas = 0;
  DeviceFlags device;
  ReductionFlags reduction;
  std::vector<trainer::FieldValue> servers;
  std::string quarantine;
  std::string timeline;
  bool top = false;
  std::string tensorboard;
  TraceFlags trace;
  ExporterFlags exporters;
  LaunchFlags launch;
};

// `watch` must outlive the result.
absl::StatusOr<collectives::Launch> ConnectAll(const Flags& flags, UnboundedWatch& watch) {
  collectives::ConnectOptions options = flags.launch.options();
  options.on_unbounded = [&watch](std::string_view what) { watch.Tell(what); };
  return collectives::Connect(options);
}

int FailUnsaved() {
  return Fail(absl::CancelledError("stopped by a signal; the job names no checkpoint folder"));
}

int FailExporters(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? FailUsage(status) : Fail(status);
}

// The same for a rank; the others hear of it.
int FailExporters(const absl::Status& status, collectives::Communicator& ranks) {
  const int code = FailExporters(status);
  ranks.Abort(status);
  return code;
}

// True if TF_CONFIG has servers, and decides.
bool TellsOfServers(const Flags& flags) {
  const auto cluster = collectives::ReadTfCluster(collectives::Environment);
  return cluster.ok() && cluster->has_value() && !flags.launch.connect.flags.rank;
}

// This process's place by TF_CONFIG.
trainer::ServerTask TaskOf(collectives::TfCluster cluster) {
  trainer::ServerTask task;
  task.workers = static_cast<int>(cluster.workers.size());
  task.servers = std::move(cluster.servers);
  task.is_server = cluster.is_server;
  task.index = cluster.index;
  return task;
}

// Trains as a worker or a server.
int TrainTask(const Flags& flags, trainer::TrainOptions& options, LiveTrain& live,
              trainer::ServerTask task) {
  options.stop = &CatchStopSignals();
  const bool is_chief = !task.is_server && task.index == 0;
  if (!task.is_server) live.Begin(flags.top, is_chief);
  const auto outcome = trainer::TrainOnServers(options, std::move(task));
  live.End();
  if (!outcome.ok()) {  // it has been reported
    return collectives::PeerLostOf(outcome.status()) ? kPeerLost : kFailed;
  }
  if (!outcome->stopped) return kDone;
  if (!outcome->checkpoint.empty()) return kStoppedResumable;
  return is_chief ? FailUnsaved() : kFailed;
}

// A process of TF_CONFIG, which does not tell its number on this host.
int TrainAsTask(const Flags& flags, trainer::TrainOptions& options, LiveTrain& live,
                trainer::ServerTask task) {
  options.launch_reason = "TF_CONFIG";
  const int rank = task.index + (task.is_server ? task.workers : 0);
  const auto exporters =
      OpenExporters(flags.exporters, &ServeMetrics, rank, /*local_rank=*/0, options.metrics);
  if (!exporters.ok()) return FailExporters(exporters.status());
  return TrainTask(flags, options, live, std::move(task));
}

// Ranks, which become workers and servers.
int TrainAsRank(const Flags& flags, trainer::TrainOptions& options, LiveTrain& live,
                UnboundedWatch& watch) {
  absl::StatusOr<collectives::Launch> launch = ConnectAll(flags, watch);
  if (!launch.ok()) return Fail(launch.status());
  collectives::Communicator& ranks = *launch->communicator;
  // Before they split, while there is a way to tell the others.
  const auto exporters = OpenExporters(flags.exporters, &ServeMetrics, ranks.rank(),
                                       ranks.local_rank(), options.metrics);
  if (!exporters.ok()) return FailExporters(exporters.status(), ranks);
  options.launch_reason = launch->reason;
  absl::StatusOr<trainer::ServerTask> task = trainer::SplitRanks(options, ranks);
  if (!task.ok()) return Fail(task.status());
  launch->communicator.reset();
  return TrainTask(flags, options, live, *std::move(task));
}

int TrainOnServers(const Flags& flags, trainer::TrainOptions& options, LiveTrain& live,
                   UnboundedWatch& watch) {
  auto cluster = collectives::ReadTfCluster(collectives::Environment);
  if (!cluster.ok()) return Fail(cluster.status());
  if (*cluster && !flags.launch.connect.flags.rank) {
    return TrainAsTask(flags, options, live, TaskOf(**std::move(cluster)));
  }
  return TrainAsRank(flags, options, live, watch);
}

int TrainJob(const Flags& flags) {
  if (flags.force && !flags.resume) {
    return FailUsage(absl::InvalidArgumentError("--force goes with --resume"));
  }
  auto variables = ParseVariables(flags.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  if (flags.launch.connect.backend == "nccl") {
    return Fail(absl::InvalidArgumentError(
        "backend 'nccl' connects no ranks: take single, tcp or mpi. With --device cuda, gradients "
        "of several ranks go over NCCL in any case"));
  }
  UnboundedWatch watch(flags.launch.connect_timeout());
  trainer::TrainOptions options;
  options.job_path = flags.job;
  options.variables = *std::move(variables);
  options.reduction = flags.reduction.given;
  options.servers = flags.servers;
  options.resume = flags.resume;
  options.force = flags.force;
  options.threads = flags.threads;
  options.replicas = flags.replicas;
  const absl::Status devices = SetDevices(flags.device, options.device, options.devices);
  if (!devices.ok()) return FailUsage(devices);
  if (options.devices.size() > 1 && flags.replicas > 0 &&
      flags.replicas != static_cast<int>(options.devices.size())) {
    return FailUsage(
        absl::InvalidArgumentError(absl::StrCat("--replicas ", flags.replicas, " are not the ",
                                                options.devices.size(), " ranks of --devices")));
  }
  options.quarantine_file = flags.quarantine;
  options.timeline_file = flags.timeline;
  options.tensorboard_folder = flags.tensorboard;
  options.trace_file = flags.trace.file;
  options.trace_time = flags.trace.time();
  options.metrics = std::make_shared<Metrics>();
  options.stall_report = std::chrono::milliseconds(flags.launch.stall_report_ms);
  options.stall_abort = std::chrono::milliseconds(flags.launch.stall_abort_ms);
  options.start_timeout = flags.launch.connect_timeout();
  Display display;
  options.print = [&display](std::string_view line) { display.Line(line); };
  options.progress = [&display](uint64_t done, uint64_t total) { display.Step(done, total); };
  options.evaluation_progress = [&display](int64_t done, int64_t total) {
    display.Evaluate(done, total);
  };
  options.index_progress = [&display](int64_t done, int64_t total) { display.Index(done, total); };
  options.warn = Display::Warning;
  options.report = [&display](const absl::Status& status) { display.Failure(status); };
  LiveTrain live(flags.job, /*writes_trace=*/!flags.trace.file.empty(), display);
  options.observe = [&live](std::shared_ptr<const trainer::RankView> rank) {
    live.Add(std::move(rank));
  };
  // A job that cannot be read is an error of all ranks, which workers and servers of TF_CONFIG are
  // not.
  const absl::StatusOr<bool> on_servers = trainer::UsesParameterServers(options);
  if (!on_servers.ok() && TellsOfServers(flags)) return Fail(on_servers.status());
  if (on_servers.value_or(false)) {
    if (flags.replicas > 1) {
      return FailUsage(absl::InvalidArgumentError(
          "--replicas goes with no parameter_server: its workers are processes"));
    }
    return TrainOnServers(flags, options, live, watch);
  }
  absl::StatusOr<collectives::Launch> launch = ConnectAll(flags, watch);
  if (!launch.ok()) return Fail(launch.status());
  options.stop = &CatchStopSignals();
  collectives::Communicator& ranks = *launch->communicator;
  const auto exporters = OpenExporters(flags.exporters, &ServeMetrics, ranks.rank(),
                                       ranks.local_rank(), options.metrics);
  if (!exporters.ok()) return FailExporters(exporters.status(), ranks);
  options.launch_reason = launch->reason;
  live.Begin(flags.top, launch->communicator->rank() == 0);
  const auto outcome = trainer::TrainReplicas(options, *launch->communicator);
  live.End();
  if (!outcome.ok()) {  // some rank has reported it
    return collectives::PeerLostOf(outcome.status()) ? kPeerLost : kFailed;
  }
  const bool resumable = outcome->stopped && !outcome->checkpoint.empty();
  watch.Note(outcome->stopped ? "the training has stopped, and saved what it could"
                              : "the training is over, with all that it saves",
             resumable ? kStoppedResumable : kFailed);
  if (!outcome->stopped) return kDone;
  if (resumable) return kStoppedResumable;
  if (launch->communicator->rank() != 0) return kFailed;
  return FailUnsaved();
}

}  // namespace

void AddTrain(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand("train", "Train a model, data-parallel over all ranks");
  command.Add("job", flags->job, "Job file (protobuf text format)").Required();
  command.Add("--var", flags->variables, "NAME=VALUE for ${NAME} in the job's files; repeatable")
      .OneValueEach();
  command.AddSwitch("--resume", flags->resume, "Continue from the job's newest checkpoint");
  command.AddSwitch(
      "--force", flags->force,
      "With --resume: continue although the job, plan or data have changed; warns what is lost");
  command
      .Add("--threads", flags->threads, "Cores of this rank (0: usable cores / ranks of this host)")
      .Whole(0, 4096);
  command
      .Add("--replicas", flags->replicas,
           "Ranks of this process, as threads with their part of its cores (0: as the job says)")
      .Whole(0, 1024);
  AddDeviceFlags(command, flags->device);
  command.Add(
      "--quarantine", flags->quarantine,
      "Append a line for each damaged record of any rank to this file (see records repair)");
  command.Add("--timeline", flags->timeline,
              "Write a timeline of all ranks to this file (Chrome trace format)");
  command.AddSwitch("--top", flags->top, "Show the figures of `millrace top` while it trains");
  AddTraceFlags(command, flags->trace);
  command.Add("--tensorboard", flags->tensorboard,
              "Write an event file for TensorBoard into this folder");
  AddExporterFlags(command, /*has_server=*/true, flags->exporters);
  AddReductionFlags(command, flags->reduction);
  AddServerFlags(command, flags->servers);
  AddLaunchFlags(command, flags->launch);
  command.Footer(
      "Ctrl-C, SIGTERM or SIGUSR1: all ranks save a checkpoint on the same step, then exit with\n"
      "75; a second Ctrl-C ends at once.\n"
      "mpirun itself kills its ranks on Ctrl-C and SIGTERM; send it SIGUSR1 instead.\n"
      "scripts/mpirun.sh does so when it receives SIGTERM.\n"
      "Examples:\n"
      "  millrace train examples/fashion_mnist/job.pbtxt\n"
      "  millrace train examples/fashion_mnist/job.pbtxt --replicas 2\n"
      "  millrace train examples/fashion_mnist/job.pbtxt --devices 0,1\n"
      "  mpirun -np 2 millrace train examples/fashion_mnist/job.pbtxt --resume\n"
      "  torchrun --nproc-per-node 2 --no-python millrace train examples/fashion_mnist/job.pbtxt\n"
      "  millrace train job.pbtxt --rank 0 --world-size 2 --rendezvous node1:29500");
  command.Do([flags] { return TrainJob(*flags); });
}

}  // namespace millrace::cli
