#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/host.h"
#include "base/status.h"
#include "base/version.h"
#include "cli/command.h"
#include "collectives/factory.h"
#include "pipeline/device_feed.h"
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
                      "devices: ", pipeline::BuiltInDevices(), "\n", "vectors: ", WidestIsa());
}

// The word where a subcommand should stand: CLI11 says only that one is missing.
std::string UnknownSubcommand(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const std::vector<std::string> rest = at->remaining();
  if (at->get_require_subcommand_min() == 0 || rest.empty()) return "";
  const auto name = [](std::string* out, const CLI::App* one) { *out += one->get_name(); };
  return absl::StrCat("\"", rest.front(), "\" is no subcommand of ", at->get_name(),
                      "; there are: ", absl::StrJoin(at->get_subcommands({}), ", ", name));
}

// What could not be written was not done.
int AfterOutput(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  const int failed = Fail(flushed ? absl::DataLossError("cannot write to standard output")
                                  : ErrnoStatus(errno, "write", "standard output"));
  return code == kDone ? failed : code;
}

int Main(int argc, char** argv) {
  CLI::App app{"Millrace: an input pipeline and a data-parallel trainer", "millrace"};
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
  AddAudit(app, chosen);
  AddTrain(app, chosen);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = UnknownSubcommand(app);
    if (error.get_exit_code() != 0 && !unknown.empty()) return FailUsage(unknown);
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return chosen();
}

}  // namespace
}  // namespace millrace::cli

int main(int argc, char** argv) {
  try {
    return millrace::cli::AfterOutput(millrace::cli::Main(argc, argv));
  } catch (const std::exception& error) {
    // Only memory exhaustion and bugs come here: the libraries report by status.
    std::fprintf(stderr, "millrace: error: %s\n", error.what());
    return millrace::cli::kFailed;
  }
}
