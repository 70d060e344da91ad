#include "readers/inspect.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/schema_text.h"
#include "cli/exit.h"
#include "cli/flags/container.h"
#include "cli/flags/files.h"
#include "cli/wait/progress.h"
#include "readers/scan.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  readers::InspectOptions options;
  ContainerFlags container;
  bool schema = false;
};

absl::StatusOr<readers::InspectReport> InspectFiles(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const auto files, FilesAndFolders(flags.files));
  Progress progress("inspect", "bytes");
  return readers::Inspect(files, flags.options, progress.Callback());
}

template <typename T>
std::string RangeText(const readers::Range<T>& range) {
  if (!range.min.has_value()) return "-";
  if (*range.min == *range.max) return absl::StrCat(*range.min);
  return absl::StrCat(*range.min, " .. ", *range.max);
}

std::string StateText(const readers::ShardReport& shard) {
  if (!shard.unreadable.empty()) return "unreadable";
  if (shard.num_damaged > 0) return absl::StrCat(shard.num_damaged, " damaged");
  return shard.whole ? "ok" : "not all read";
}

std::string CompressionText(readers::Compression compression) {
  switch (compression) {
    case readers::Compression::kGzip:
      return "gzip";
    case readers::Compression::kZlib:
      return "zlib";
    case readers::Compression::kZstd:
      return "zstd";
    default:
      return "none";
  }
}

void PrintShard(const std::string& name, const std::string& compression,
                const readers::ShardReport& shard) {
  absl::PrintF("%-48s %9d %10s  %-5s %-12s %s / %.0f / %s\n", name, shard.num_records,
               BytesText(shard.file_bytes), compression, StateText(shard),
               shard.record_bytes.min ? absl::StrCat(*shard.record_bytes.min) : "-",
               shard.mean_record_bytes(),
               shard.record_bytes.max ? absl::StrCat(*shard.record_bytes.max) : "-");
}

// The type of a feature's values, and their bounds.
std::string ValuesText(const readers::FeatureReport& feature) {
  std::vector<std::string> parts;
  if (feature.num_ints > 0) parts.push_back(RangeText(feature.ints));
  if (feature.num_floats > 0) parts.push_back(RangeText(feature.floats));
  if (feature.num_nan > 0) parts.push_back(absl::StrCat(feature.num_nan, " NaN"));
  if (feature.num_bytes > 0) parts.push_back(RangeText(feature.byte_lengths) + " bytes");
  for (const auto& [format, count] : feature.image_formats) {
    parts.push_back(absl::StrCat(count, " ", format));
  }
  if (feature.image_heights.min.has_value()) {
    parts.push_back(absl::StrCat("height ", RangeText(feature.image_heights), ", width ",
                                 RangeText(feature.image_widths), ", channels ",
                                 RangeText(feature.image_channels)));
  }
  if (feature.num_bad_images > 0) {
    parts.push_back(absl::StrCat(feature.num_bad_images, " bad images"));
  }
  std::string text;
  for (const std::string& part : parts) absl::StrAppend(&text, text.empty() ? "" : "; ", part);
  return text;
}

// Tells what the numbers count.
void PrintMeaning(const readers::InspectReport& report) {
  absl::PrintF(
      "\nrecords: whole ones, also those behind damage; of a feature, those that have it.\n");
  if (report.total.num_damaged > 0) {
    absl::PrintF("damaged: places, of a record or of a stretch in which records may be lost.\n");
  }
  if (!std::ranges::all_of(report.shards, &readers::ShardReport::all_read)) {
    absl::PrintF("Not all of each file was read: numbers are of what was.\n");
  }
}

void Print(const readers::InspectReport& report) {
  absl::PrintF("%-48s %9s %10s  %-5s %-12s %s\n", "shard", "records", "size", "zip", "state",
               "record bytes min / mean / max");
  for (const readers::ShardReport& shard : report.shards) {
    PrintShard(shard.file, CompressionText(shard.compression), shard);
  }
  if (report.shards.size() > 1) {
    PrintShard(absl::StrFormat("%d shards", report.shards.size()), "", report.total);
  }
  if (!report.features.empty()) {
    absl::PrintF("\n%-28s %-6s %9s  %-10s %s\n", "feature", "type", "records", "values", "range");
  }
  for (const readers::FeatureReport& feature : report.features) {
    absl::PrintF("%-28s %-6s %9d  %-10s %s\n", feature.key, ToAbsl(feature.kind()),
                 feature.num_records(), RangeText(feature.num_values), ValuesText(feature));
  }
  if (report.total.num_not_examples > 0) {
    absl::PrintF(
        "%d records are no tf.train.Example, row, object or sample, as their files' should be\n",
        report.total.num_not_examples);
  }
  if (report.total.num_with_nan > 0) {
    absl::PrintF(
        "%d records hold NaN or Infinity, which JSON does not have: allow_nan in a plan, or "
        "convert "
        "--allow-nan, takes them\n",
        report.total.num_with_nan);
  }
  for (const readers::ShardReport& shard : report.shards) {
    for (const readers::DamagedPlace& place : shard.damages) absl::PrintF("%s\n", place.message);
  }
  PrintMeaning(report);
}

// Says which files have no report, and returns the exit code.
int Verdict(const readers::InspectReport& report) {
  for (const readers::ShardReport& shard : report.shards) {
    if (!shard.unreadable.empty()) Fail(absl::UnavailableError(shard.unreadable));
    for (const std::string& note : shard.notes) Warn(note);
  }
  return report.ok() ? kDone : kFailed;
}

// All shards have to be of one kind, that of the first.
absl::StatusOr<std::string> SchemaOf(const readers::InspectReport& report, const Flags& flags) {
  for (const readers::ShardReport& shard : report.shards) {
    if (shard.holds == report.shards[0].holds) continue;
    return absl::InvalidArgumentError(absl::StrCat("--schema: ", report.shards[0].file, " holds ",
                                                   report.shards[0].holds, ", and ", shard.file,
                                                   " ", shard.holds));
  }
  return SchemaText(report, readers::KindOf(report.shards[0].file, flags.options.container));
}

int PrintSchema(const readers::InspectReport& report, const Flags& flags) {
  const int verdict = Verdict(report);
  for (const readers::ShardReport& shard : report.shards) {
    for (const readers::DamagedPlace& place : shard.damages) Warn(place.message);
  }
  const auto text = SchemaOf(report, flags);
  if (!text.ok()) return Fail(text.status());
  std::fputs(text->c_str(), stdout);
  return verdict;
}

int Run(Flags flags) {
  const auto container = flags.container.Options(flags.files);
  if (!container.ok()) return FailUsage(container.status());
  flags.options.container = *container;
  if (const absl::Status status = CheckNoFolder(flags.files, *container); !status.ok()) {
    return FailUsage(status);
  }
  constexpr uint64_t kRecordsOfSchema = 1000;
  if (flags.schema && flags.options.max_records == 0) flags.options.max_records = kRecordsOfSchema;
  const auto report = InspectFiles(flags);
  if (!report.ok()) return Fail(report.status());
  if (flags.schema) return PrintSchema(*report, flags);
  Print(*report);
  return Verdict(*report);
}

}  // namespace

void AddInspect(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "inspect", "Describe record files: records, sizes, damage, features and their ranges");
  command.Add("files", flags->files, "Files or glob patterns; folders of images by class")
      .Required();
  AddContainerFlags(command, flags->container);
  command
      .Add("--records", flags->options.max_records,
           "Records to look at per file (0: all; with --schema 1000)")
      .Whole(0);
  command.AddSwitch("--schema", flags->schema,
                    "Print a stage that parses the records, with types that are guessed from them");
  command.Footer(
      "Exit code 1 if a file cannot be read, or the part that was read is damaged. Columns of CSV\n"
      "have names with --header alone.\n"
      "Examples:\n  millrace records inspect data/*.tfrecord samples.tar photos/\n"
      "  millrace records inspect --schema --header rows.csv");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
