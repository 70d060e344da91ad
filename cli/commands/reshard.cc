#include "readers/reshard.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/host.h"
#include "base/local_path.h"
#include "base/made_folder.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"
#include "cli/flags/compression.h"
#include "cli/wait/phases.h"
#include "readers/expand_files.h"
#include "readers/record_source.h"

// `millrace records split`, `merge` and `sample`: one operation, which copies records into another
// set of shards, with the flags that each of them needs.

namespace millrace::cli {
namespace {

struct Flags {
  readers::ReshardOptions options;
  std::vector<std::string> files;
  std::string out;
  std::string prefix = "data";
  std::optional<uint64_t> shuffle_seed;
  double share = 0;  // sample; 0: not given
};

// The number of records that are `fraction` of all, at least one.
absl::StatusOr<uint64_t> CountOf(double fraction, const readers::ReshardOptions& options) {
  readers::RecordSourceOptions source;
  source.threads = options.threads;
  source.progress = options.index_progress;
  MILLRACE_ASSIGN_OR_RETURN(const auto records, readers::RecordSource::Open(options.files, source));
  const auto all = static_cast<double>(records->num_records());
  return std::max<uint64_t>(static_cast<uint64_t>(std::llround(all * fraction)), 1);
}

absl::StatusOr<readers::ReshardReport> Run(Flags flags) {
  readers::ReshardOptions& options = flags.options;
  MILLRACE_ASSIGN_OR_RETURN(flags.out, LocalPath(flags.out));
  MILLRACE_ASSIGN_OR_RETURN(const MadeFolder out, MadeFolder::Make(flags.out));
  options.output_prefix = (std::filesystem::path(flags.out) / flags.prefix).string();
  MILLRACE_ASSIGN_OR_RETURN(options.files, readers::ExpandFiles(flags.files));
  options.threads = ReadCores().usable;
  Phases phases;
  phases.Begin("index", "bytes");
  options.index_progress = phases.Callback("index", "bytes");
  if (flags.share > 0) {
    MILLRACE_ASSIGN_OR_RETURN(options.sample_records, CountOf(flags.share, options));
  }
  if (flags.shuffle_seed.has_value()) {
    options.shuffle = true;
    options.seed = *flags.shuffle_seed;
  }
  return readers::Reshard(options, phases.Callback("write", "records"));
}

int RunAndPrint(const Flags& flags) {
  if (const absl::Status bad = CheckPrefix(flags.prefix); !bad.ok()) return FailUsage(bad);
  const auto report = Run(flags);
  if (!report.ok()) return Fail(report.status());
  absl::PrintF("%d records, %s in %d shards\n", report->num_records, BytesText(report->file_bytes),
               report->files.size());
  absl::PrintF("  %s\n", report->files.front());
  if (report->files.size() > 1) absl::PrintF("  ... %s\n", report->files.back());
  return kDone;
}

// Adds the flags that all three have.
Command AddCommon(Command parent, const std::string& name, const std::string& help,
                  const std::shared_ptr<Flags>& flags) {
  Command command = parent.AddCommand(name, help);
  command.Add("files", flags->files, "TFRecord files or glob patterns").Required();
  command.Add("--out", flags->out, "Folder for the shards; made if it is missing").Required();
  command.Add("--prefix", flags->prefix, "Shards are PREFIX-00000-of-00008.tfrecord").ShowDefault();
  AddCompressionFlag(command, flags->options.compression);
  command.AddSwitch("--overwrite", flags->options.overwrite,
                    "Replace existing shards of this prefix");
  command.Do([flags] { return RunAndPrint(*flags); });
  return command;
}

void AddShards(Command& command, Flags& flags) {
  command.Add("--shards", flags.options.num_shards, "Number of shards, of about equal bytes")
      .Whole(1, 99999)
      .ShowDefault();
}

void AddShuffle(Command& command, Flags& flags) {
  command.Add("--shuffle", flags.shuffle_seed, "Shuffle the records first, with this seed")
      .Whole(0);
}

}  // namespace

void AddSplit(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command =
      AddCommon(parent, "split", "Copy records into shards of about equal bytes", flags);
  AddShards(command, *flags);
  AddShuffle(command, *flags);
  command.Footer(
      "If it is killed, the same command continues with the unfinished shard.\n"
      "Example:\n"
      "  millrace records split all.tfrecord --out data --prefix train --shards 64 --shuffle 1");
}

void AddMerge(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = AddCommon(parent, "merge", "Copy the records of all files into one", flags);
  AddShuffle(command, *flags);
  command.Footer("Example:\n  millrace records merge 'data/train-*' --out merged --prefix train");
}

void AddSample(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = AddCommon(
      parent, "sample", "Copy records drawn at random without replacement, in their order", flags);
  AddShards(command, *flags);
  command.Add("--count", flags->options.sample_records, "Number of records").Whole(1);
  command.Add("--share", flags->share, "Share of the records").Finite(0, 1);
  command.Add("--seed", flags->options.seed, "Of the draw").Whole(0).ShowDefault();
  command.Do([flags] {
    if (flags->options.sample_records.has_value() == (flags->share > 0)) {
      return FailUsage(std::string("sample: give --count, or a --share above 0"));
    }
    return RunAndPrint(*flags);
  });
  command.Footer(
      "Example:\n"
      "  millrace records sample 'data/train-*' --share 0.01 --seed 7 --out small --prefix train");
}

}  // namespace millrace::cli
