#include "readers/verify.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/container.h"
#include "cli/flags/files.h"
#include "cli/wait/progress.h"
#include "readers/quarantine.h"
#include "readers/repair.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  readers::VerifyOptions options;
  ContainerFlags container;
  std::string from;
  bool json = false;
};

absl::StatusOr<readers::VerifyReport> VerifyFiles(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const auto files, FilesAndFolders(flags.files));
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
  auto unreadable = nlohmann::ordered_json::array();
  for (const readers::UnreadableFile& file : report.unreadable) {
    unreadable.push_back({{"file", file.file}, {"message", file.message}});
  }
  const nlohmann::ordered_json json{
      {"files", report.num_files},     {"damaged_files", report.num_damaged_files},
      {"records", report.num_records}, {"payload_bytes", report.payload_bytes},
      {"damaged", report.num_damaged}, {"damage", damage},
      {"unreadable", unreadable},      {"notes", report.notes}};
  std::puts(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void PrintText(const readers::VerifyReport& report) {
  for (const readers::DamagedPlace& place : report.places) absl::PrintF("%s\n", place.message);
  if (report.num_damaged > report.places.size()) {
    absl::PrintF("... and %d more\n", report.num_damaged - report.places.size());
  }
  absl::PrintF("%d files, %d intact records (%s), %d damaged places in %d files", report.num_files,
               report.num_records, BytesText(report.payload_bytes), report.num_damaged,
               report.num_damaged_files);
  if (!report.unreadable.empty()) absl::PrintF(", %d unreadable", report.unreadable.size());
  absl::PrintF("\n");
}

int CodeOf(bool is_damaged, bool is_unreadable) {
  if (is_damaged) return kFailed;
  return is_unreadable ? kUnreadable : kDone;
}

std::string StateText(const readers::PlaceCheck& check) {
  if (check.unreadable) return "unreadable: " + check.message;
  return check.damaged ? "damaged: " + check.message : "intact";
}

// Verifies only the places that a quarantine names.
int RunFrom(const Flags& flags) {
  const auto places = readers::ReadQuarantine(flags.from);
  if (!places.ok()) return Fail(places.status());
  const auto checks = readers::VerifyPlaces(
      *places,
      {.container = flags.options.container, .max_record_bytes = flags.options.max_record_bytes});
  const auto damaged = std::ranges::count_if(checks, &readers::PlaceCheck::damaged);
  const auto unreadable = std::ranges::count_if(checks, &readers::PlaceCheck::unreadable);
  auto list = nlohmann::ordered_json::array();
  for (const readers::PlaceCheck& check : checks) {
    const RecordError& at = check.listed;
    list.push_back({{"file", at.file},
                    {"offset", at.offset},
                    {"ordinal", at.ordinal},
                    {"reason", std::string(RecordErrorReasonName(at.reason))},
                    {"damaged", check.damaged},
                    {"unreadable", check.unreadable},
                    {"message", check.message}});
    if (flags.json) continue;
    absl::PrintF("%s: record %d at offset %d: %s\n", at.file, at.ordinal, at.offset,
                 StateText(check));
  }
  if (flags.json) {
    const nlohmann::ordered_json json{{"places", checks.size()},
                                      {"damaged", damaged},
                                      {"unreadable", unreadable},
                                      {"checks", list}};
    std::puts(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    absl::PrintF("%d of %d places are damaged", damaged, checks.size());
    if (unreadable > 0) absl::PrintF(", %d are in files that cannot be read", unreadable);
    absl::PrintF("\n");
  }
  return CodeOf(damaged > 0, unreadable > 0);
}

int Run(Flags flags) {
  if (flags.from.empty() == flags.files.empty()) {
    return FailUsage("give files, or --from with a quarantine");
  }
  auto container = flags.container.Options(flags.files);
  if (!container.ok()) return FailUsage(container.status());
  flags.options.container = *container;
  if (!flags.from.empty()) return RunFrom(flags);
  if (const absl::Status status = CheckNoFolder(flags.files, *container); !status.ok()) {
    return FailUsage(status);
  }
  const auto report = VerifyFiles(flags);
  if (!report.ok()) return Fail(report.status());
  for (const std::string& note : report->notes) Warn(note);
  for (const readers::UnreadableFile& file : report->unreadable) {
    Fail(absl::UnavailableError(file.message));
  }
  flags.json ? PrintJson(*report) : PrintText(*report);
  return CodeOf(report->num_damaged > 0, !report->unreadable.empty());
}

}  // namespace

void AddVerify(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand("verify",
                                      "Read every byte, list every damaged place; exit 1 if there "
                                      "is one, 66 if a file cannot be read");
  command.Add("files", flags->files, "Files or glob patterns; folders of images by class");
  AddContainerFlags(command, flags->container);
  command.Add("--from", flags->from,
              "Read only the records that this quarantine names (millrace run --quarantine)");
  command.AddSwitch("--examples", flags->options.check_examples,
                    "Each payload must also be a valid tf.train.Example");
  command
      .Add("--threads", flags->options.threads,
           "Threads that read a file each (default: all usable cores)")
      .Whole(1, 4096);
  command
      .Add("--max-places", flags->options.max_places,
           "Number of damaged places to list; all are counted")
      .Whole(0)
      .ShowDefault();
  command.AddSwitch("--json", flags->json, "One JSON object on standard output");
  command.Footer(
      "Rows of CSV must have as many cells as the row of names (--header), or as most of the first "
      "rows. Of images in a folder only the headers are read.\n"
      "Examples:\n  millrace records verify --examples data/*.tfrecord\n"
      "  millrace records verify samples-*.tar rows.csv.gz photos/\n"
      "  millrace records verify --from bad.jsonl");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
