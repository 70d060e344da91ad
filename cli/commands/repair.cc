#include "readers/repair.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/local_path.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/container.h"
#include "cli/wait/progress.h"
#include "readers/expand_files.h"
#include "readers/quarantine.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  std::string out;
  std::string from;
  ContainerFlags container;
  readers::RepairOptions options;
};

void Print(const readers::RepairedFile& file) {
  for (const readers::DamagedPlace& place : file.dropped) {
    absl::PrintF("dropped %s\n", place.message);
  }
  absl::PrintF("%s: %d records, %d of them framed anew, %d places dropped\n", file.out,
               file.num_kept, file.num_reframed, file.dropped.size());
}

absl::Status RepairFiles(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const auto files, readers::ExpandFiles(flags.files));
  readers::RepairOptions options = flags.options;
  if (!flags.from.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(options.listed, readers::ReadQuarantine(flags.from));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string out, LocalPath(flags.out));
  Progress progress("repair", "bytes");
  options.progress = progress.Callback();
  return readers::Repair(files, out, options,
                         [&progress](const readers::RepairedFile& file) {
                           progress.Clear();
                           Print(file);
                         })
      .status();
}

int Run(Flags flags) {
  auto container = flags.container.Options(flags.files);
  if (!container.ok()) return FailUsage(container.status());
  flags.options.container = *container;
  const absl::Status repaired = RepairFiles(flags);
  return repaired.ok() ? kDone : Fail(repaired);
}

}  // namespace

void AddRepair(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "repair", "Copy files without their damaged records; the files stay as they are");
  command.Add("files", flags->files, "Files or glob patterns").Required();
  AddContainerFlags(command, flags->container);
  command.Add("--out", flags->out, "Folder of the copies, which have the files' names").Required();
  command.Add("--from", flags->from,
              "Also leave out the records that this quarantine names for bad content");
  command.AddSwitch("--reframe", flags->options.reframe,
                    "TFRecord: keep a record with a wrong checksum if it is a tf.train.Example, or "
                    "if only the checksum of its length is wrong");
  command.Footer(
      "Repair removes from a tar the samples around a damaged header, and from CSV rows that do "
      "not parse or have another number of cells than the row of names (--header) or most of the "
      "first rows. Records of IDX and of fixed length cannot be repaired.\n"
      "Example:\n  millrace records repair data/*.tfrecord --out mended --reframe");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
