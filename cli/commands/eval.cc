#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/inference.h"
#include "cli/flags/launch.h"
#include "cli/wait/display.h"
#include "cli/wait/unbounded_watch.h"
#include "collectives/factory.h"
#include "collectives/peer_lost.h"
#include "trainer/inference.h"
#include "trainer/report.h"

namespace millrace::cli {
namespace {

struct Flags {
  InferenceFlags inference;
  LaunchFlags launch;
  bool json = false;
};

nlohmann::ordered_json JsonOf(const trainer::EvaluationOutcome& outcome) {
  const trainer::EvaluationLine& metrics = outcome.metrics;
  const auto part = [&](int64_t count) {
    return metrics.total > 0 ? static_cast<double>(count) / static_cast<double>(metrics.total) : 0;
  };
  nlohmann::ordered_json json{{"samples", metrics.total}, {"loss", metrics.mean_loss}};
  if (metrics.mean_error) {
    json["mean_absolute_error"] = *metrics.mean_error;
  } else {
    json["accuracy"] = part(metrics.correct);
    json["correct"] = metrics.correct;
  }
  if (metrics.in_top5) json["top5_accuracy"] = part(*metrics.in_top5);
  if (metrics.auc) json["auc"] = *metrics.auc;  // NaN is printed as null
  json["checkpoint"] = outcome.weights.path;
  if (outcome.weights.step) json["step"] = *outcome.weights.step;
  json["average"] = outcome.weights.is_average;
  return json;
}

void PrintText(const trainer::EvaluationOutcome& outcome) {
  std::printf("%s\n%s\n", trainer::FormatWeights(outcome.weights).c_str(),
              trainer::FormatEvaluation(outcome.metrics).c_str());
}

void Print(const trainer::EvaluationOutcome& outcome, bool as_json) {
  if (!as_json) return PrintText(outcome);
  const std::string text =
      JsonOf(outcome).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

int Run(const Flags& flags) {
  auto options = InferenceOptionsOf(flags.inference);
  if (!options.ok()) return FailUsage(options.status());
  if (flags.launch.connect.backend == "nccl") {
    return FailUsage("backend 'nccl' is of GPUs: take single, tcp or mpi");
  }
  UnboundedWatch watch(flags.launch.connect_timeout());
  collectives::ConnectOptions connect = flags.launch.options();
  connect.on_unbounded = [&watch](std::string_view what) { watch.Tell(what); };
  const absl::StatusOr<collectives::Launch> launch = collectives::Connect(connect);
  if (!launch.ok()) return Fail(launch.status());
  Display display;
  options->stall_report = std::chrono::milliseconds(flags.launch.stall_report_ms);
  options->stall_abort = std::chrono::milliseconds(flags.launch.stall_abort_ms);
  options->start_timeout = flags.launch.connect_timeout();
  options->warn = Display::Warning;
  options->report = [&display](const absl::Status& status) { display.Failure(status); };
  options->progress = [&display](int64_t done, int64_t all) {
    display.Show("evaluate", "batches", done, all);
  };
  options->index_progress = [&display](int64_t done, int64_t all) { display.Index(done, all); };
  const auto outcome = trainer::EvaluateJob(*options, *launch->communicator);
  if (!outcome.ok()) {  // some rank has reported it
    return collectives::PeerLostOf(outcome.status()) ? kPeerLost : kFailed;
  }
  display.End();
  if (launch->communicator->rank() == 0) Print(*outcome, flags.json);
  watch.Note("the evaluation is over");
  return kDone;
}

}  // namespace

void AddEval(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command =
      parent.AddCommand("eval", "Evaluate a trained model, with the data divided over all ranks");
  AddInferenceFlags(command, flags->inference);
  command.AddSwitch("--json", flags->json, "Print one JSON object");
  AddLaunchFlags(command, flags->launch);
  command.Footer(
      "Examples:\n"
      "  millrace eval examples/fashion_mnist/job.pbtxt\n"
      "  millrace eval job.pbtxt --checkpoint resnet18.safetensors --plan test.pbtxt --json\n"
      "  mpirun -np 2 millrace eval job.pbtxt --checkpoint checkpoints");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
