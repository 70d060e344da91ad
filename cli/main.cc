#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/host.h"
#include "base/version.h"
#include "cli/command.h"
#include "collectives/factory.h"
#include "trainer/backend.h"

namespace millrace::cli {
namespace {

constexpr char kFooter[] = R"(
Exit codes: 0 done; 1 failed; 2 wrong command line; 75 stopped by a signal with a durable checkpoint, resumable.

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

int Main(int argc, char** argv) {
  CLI::App app{"Millrace: an input pipeline and data-parallel trainer that never starves the GPUs"};
  app.footer(kFooter);
  app.set_version_flag("--version", VersionText);
  app.require_subcommand(1);

  Action chosen;
  CLI::App* records =
      app.add_subcommand("records", "Convert, inspect, verify and print record files");
  records->require_subcommand(1);
  AddConvert(*records, chosen);
  AddInspect(*records, chosen);
  AddVerify(*records, chosen);
  AddCat(*records, chosen);
  AddExplain(app, chosen);
  AddRun(app, chosen);
  AddTrain(app, chosen);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return chosen();
}

}  // namespace
}  // namespace millrace::cli

int main(int argc, char** argv) {
  try {
    return millrace::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    // Only memory exhaustion and bugs come here: the libraries report by status.
    std::fprintf(stderr, "millrace: error: %s\n", error.what());
    return millrace::cli::kFailed;
  }
}
