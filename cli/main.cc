#include <cerrno>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/caught.h"
#include "base/host.h"
#include "base/status.h"
#include "base/version.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/command_line.h"
#include "cli/limits.h"
#include "collectives/factory.h"
#include "trainer/train.h"

namespace millrace::cli {
namespace {

constexpr char kFooter[] = R"(
Exit codes: 0 done; 1 failed; 2 wrong command line; 75 stopped by a signal with a durable
checkpoint, resumable; 76 another rank was lost (what could be saved was).

Examples:
  millrace records convert --from idx --images train-images-idx3-ubyte.gz \
      --labels train-labels-idx1-ubyte.gz --out data --prefix train --shards 8
  millrace records inspect data/*.tfrecord
  millrace explain examples/fashion_mnist/train.pbtxt --var DATA=data
  millrace run examples/fashion_mnist/train.pbtxt --var DATA=data --seconds 5
  mpirun -np 2 millrace train examples/fashion_mnist/job.pbtxt
)";

std::string VersionText() {
  return absl::StrCat("millrace ", std::string(Version()), " (", std::string(Commit()), ")\n",
                      "communicators: ", absl::StrJoin(collectives::BackendNames(), ", "), "\n",
                      "compute: ", absl::StrJoin(trainer::BackendNames(), ", "), "\n",
                      "vectors: ", WidestIsa());
}

// Output that could not be written makes the command fail.
int AfterOutput(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  const int failed = Fail(flushed ? absl::DataLossError("cannot write to standard output")
                                  : ErrnoStatus(errno, "write", "standard output"));
  return code == kDone ? failed : code;
}

int Main(int argc, char** argv) {
  CommandLine line("millrace", "Millrace: an input pipeline and a data-parallel trainer",
                   VersionText);
  Command top = line.top();
  top.Footer(kFooter);
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
  AddExplain(reading);
  AddRun(reading);
  AddShow(reading);
  AddAudit(reading);
  AddBench(top);
  AddTrain(top);
  return line.Run(argc, argv);
}

}  // namespace
}  // namespace millrace::cli

int main(int argc, char** argv) {
  millrace::cli::IgnoreFileSizeSignal();
  try {
    return millrace::cli::AfterOutput(millrace::cli::Main(argc, argv));
  } catch (...) {
    // Only memory exhaustion and bugs come here: the libraries report by status.
    return millrace::cli::Fail(millrace::ThrownError());
  }
}
