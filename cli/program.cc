#include "cli/program.h"

#include <cerrno>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/host.h"
#include "base/status.h"
#include "base/version.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/limits.h"

namespace millrace::cli {
namespace {

constexpr char kFooter[] = R"(
Exit codes: 0 done; 1 failed; 2 wrong command line; 66 a file could not be read, and no damage was
found in others (records verify); 75 stopped by a signal with a durable checkpoint, resumable;
76 another rank was lost (what could be saved was).

Examples:
  millrace records convert --from idx --images train-images-idx3-ubyte.gz \
      --labels train-labels-idx1-ubyte.gz --out data --prefix train --shards 8
  millrace records inspect data/*.tfrecord
  millrace explain examples/fashion_mnist/train.pbtxt --var DATA=data
  millrace run examples/fashion_mnist/train.pbtxt --var DATA=data --seconds 5
)";

std::string VersionText(const std::string& facts) {
  return absl::StrCat("millrace ", std::string(Version()), " (", std::string(Commit()), ")\n",
                      facts, "vectors: ", WidestIsa());
}

// Output that could not be written makes the command fail.
int AfterOutput(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  const int failed = Fail(flushed ? absl::DataLossError("cannot write to standard output")
                                  : ErrnoStatus(errno, "write", "standard output"));
  return code == kDone ? failed : code;
}

int RunLine(int argc, char** argv, const Jobs& jobs) {
  CommandLine line("millrace", "Millrace: an input pipeline and a data-parallel trainer",
                   [&jobs] { return VersionText(jobs.facts); });
  Command top = line.top();
  top.Footer(kFooter + jobs.examples);
  // The commands that work on the CPU alone.
  Command reading = top.With(LimitData);
  Command records = reading.AddCommand(
      "records", "Convert, inspect, verify, print, split and merge record files");
  AddConvert(records);
  AddInspect(records);
  AddIndex(records);
  AddVerify(records);
  AddRepair(records);
  AddCat(records);
  AddSplit(records);
  AddMerge(records);
  AddSample(records);
  AddExplain(reading, jobs.explainer);
  AddRun(reading, jobs.serve_metrics);
  AddShow(reading);
  AddTop(reading);
  AddTune(reading, jobs.explainer, jobs.open_job);
  AddAudit(reading);
  AddDoctor(top);
  if (jobs.add != nullptr) jobs.add(top);
  return line.Run(argc, argv);
}

}  // namespace

int RunProgram(int argc, char** argv, const Jobs& jobs) {
  IgnoreFileSizeSignal();
  LoadUnwinder();
  try {
    return AfterOutput(RunLine(argc, argv, jobs));
  } catch (...) {
    // Only memory exhaustion and bugs come here: the libraries report by status.
    return Fail(ThrownError());
  }
}

}  // namespace millrace::cli
