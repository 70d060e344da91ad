#include "pipeline/audit.h"

#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/command.h"
#include "cli/exit.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  uint64_t epochs = 1;
  uint64_t messages = 20;
  bool json = false;
};

bool Proven(const Flags& flags, const pipeline::AuditReport& report) {
  return report.num_violations == 0 && report.finished_epochs() >= flags.epochs;
}

// "epoch 0: 500 of 500 samples, none twice".
std::string EpochLine(const pipeline::AuditEpoch& epoch) {
  std::string line = absl::StrCat("epoch ", epoch.epoch, ": ", epoch.visited);
  if (epoch.expected) absl::StrAppend(&line, " of ", *epoch.expected);
  absl::StrAppend(&line, epoch.finished ? " samples" : " samples so far");
  if (epoch.duplicates == 0) absl::StrAppend(&line, ", none twice");
  if (epoch.replaced > 0) absl::StrAppend(&line, ", ", epoch.replaced, " replaced");
  if (epoch.duplicates > 0) absl::StrAppend(&line, ", ", epoch.duplicates, " visits too many");
  if (epoch.lost > 0) absl::StrAppend(&line, ", ", epoch.lost, " lost");
  if (epoch.unexpected > 0) absl::StrAppend(&line, ", ", epoch.unexpected, " unexpected");
  return line;
}

std::string Verdict(const Flags& flags, const pipeline::AuditReport& report) {
  const uint64_t finished = report.finished_epochs();
  if (report.num_violations > 0) {
    return absl::StrCat("NOT PROVEN: ", report.num_violations, " violations");
  }
  if (finished < flags.epochs) {
    return absl::StrCat("NOT PROVEN: ", finished, " epochs were finished, not ", flags.epochs);
  }
  return absl::StrCat(
      "proven over ", finished, " finished epochs: every sample was visited ",
      report.exactly_once() ? "exactly once" : "at most once (which ones should be is not known)");
}

void PrintText(const Flags& flags, const pipeline::AuditReport& report) {
  const std::string counts =
      absl::StrCat(report.logs, " logs, ", report.starts, " starts: ", report.batches,
                   " whole batches, ", report.visits, " visits, ", report.replaced, " replaced; ",
                   report.withdrawn_slices, " slices delivered again after restarts");
  std::puts(counts.c_str());
  for (const pipeline::AuditEpoch& epoch : report.epochs) std::puts(EpochLine(epoch).c_str());
  for (const std::string& text : report.notes) std::puts(("note: " + text).c_str());
  for (const std::string& text : report.violations) std::puts(("VIOLATION: " + text).c_str());
  std::puts(Verdict(flags, report).c_str());
}

void PrintJson(const Flags& flags, const pipeline::AuditReport& report) {
  using Json = nlohmann::ordered_json;
  Json json{{"proven", Proven(flags, report)},
            {"exactly_once", report.exactly_once()},
            {"violations", report.num_violations},
            {"logs", report.logs},
            {"starts", report.starts},
            {"batches", report.batches},
            {"visits", report.visits},
            {"replaced", report.replaced},
            {"lost_rows", report.lost_rows},
            {"withdrawn_slices", report.withdrawn_slices},
            {"messages", report.violations},
            {"notes", report.notes},
            {"epochs", Json::array()}};
  for (const pipeline::AuditEpoch& epoch : report.epochs) {
    Json entry{{"epoch", epoch.epoch},           {"finished", epoch.finished},
               {"visited", epoch.visited},       {"expected", nullptr},
               {"duplicates", epoch.duplicates}, {"lost", epoch.lost},
               {"unexpected", epoch.unexpected}, {"replaced", epoch.replaced}};
    if (epoch.expected) entry["expected"] = *epoch.expected;
    json["epochs"].push_back(std::move(entry));
  }
  std::puts(json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

int Audit(const Flags& flags) {
  pipeline::AuditOptions options;
  options.max_messages = static_cast<size_t>(flags.messages);
  const auto report = pipeline::CheckAudit(flags.files, options);
  if (!report.ok()) return Fail(report.status());
  if (flags.json) {
    PrintJson(flags, *report);
  } else {
    PrintText(flags, *report);
  }
  return Proven(flags, *report) ? kDone : kFailed;
}

}  // namespace

void AddAudit(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "audit", "Prove from the logs of `run --audit` that every sample was visited exactly once");
  command.Add("files", flags->files, "Logs of all ranks and restarts, in any order").Required();
  command.Add("--epochs", flags->epochs, "The least number of epochs that must be finished")
      .Whole(0, std::numeric_limits<int64_t>::max())
      .ShowDefault();
  command.Add("--messages", flags->messages, "The number of violations to describe in words")
      .Whole(1, 1000000)
      .ShowDefault();
  command.AddSwitch("--json", flags->json, "One JSON object on standard output");
  command.Footer(
      "Exit codes: 0 proven; 1 violated, or too few epochs were finished; 2 wrong command line.\n\n"
      "Examples:\n"
      "  millrace run p.pbtxt --rank 0 --world 2 --audit rank0.audit --token-file rank0.token\n"
      "  millrace audit rank*.audit");
  command.Do([flags] { return Audit(*flags); });
}

}  // namespace millrace::cli
