#include "readers/verify.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/flag_checks.h"
#include "cli/human_bytes.h"
#include "cli/progress.h"
#include "readers/record_source.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  readers::VerifyOptions options;
  bool json = false;
};

absl::StatusOr<readers::VerifyReport> VerifyFiles(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const auto files, readers::ExpandFiles(flags.files));
  Progress progress("verify", "bytes");
  return readers::Verify(files, flags.options, progress.Callback());
}

void PrintJson(const readers::VerifyReport& report) {
  auto damage = nlohmann::ordered_json::array();
  for (const readers::DamagedPlace& place : report.places) {
    damage.push_back({{"file", place.error.file},
                      {"offset", place.error.offset},
                      {"ordinal", place.error.ordinal},
                      {"reason", std::string(RecordErrorReasonName(place.error.reason))},
                      {"message", place.message}});
  }
  const nlohmann::ordered_json json{
      {"files", report.num_files},     {"damaged_files", report.num_damaged_files},
      {"records", report.num_records}, {"payload_bytes", report.payload_bytes},
      {"damaged", report.num_damaged}, {"damage", damage}};
  std::puts(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void PrintText(const readers::VerifyReport& report) {
  for (const readers::DamagedPlace& place : report.places) absl::PrintF("%s\n", place.message);
  if (report.num_damaged > report.places.size()) {
    absl::PrintF("... and %d more\n", report.num_damaged - report.places.size());
  }
  absl::PrintF("%d files, %d intact records (%s), %d damaged places in %d files\n",
               report.num_files, report.num_records,
               HumanBytes(static_cast<double>(report.payload_bytes)), report.num_damaged,
               report.num_damaged_files);
}

int Run(const Flags& flags) {
  const auto report = VerifyFiles(flags);
  if (!report.ok()) return Fail(report.status());
  flags.json ? PrintJson(*report) : PrintText(*report);
  return report->ok() ? kDone : kFailed;
}

}  // namespace

void AddVerify(CLI::App& parent, Action& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* app = parent.add_subcommand(
      "verify", "Read every byte, list every damaged place; exit 1 when there is one");
  app->add_option("files", flags->files, "TFRecord files or glob patterns")->required();
  app->add_flag("--examples", flags->options.check_examples,
                "Each payload must be a valid tf.train.Example too");
  app->add_option("--max-places", flags->options.max_places, "List so many; all are counted")
      ->check(Whole(0))
      ->capture_default_str();
  app->add_flag("--json", flags->json, "One JSON object on standard output");
  app->footer("Example:\n  millrace records verify --examples data/*.tfrecord");
  app->callback([flags, &chosen] { chosen = [flags] { return Run(*flags); }; });
}

}  // namespace millrace::cli
