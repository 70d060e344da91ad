#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/emulate/run_stream.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"
#include "cli/page/contact_sheet.h"
#include "pipeline/crop_watch.h"
#include "pipeline/plan.h"

// `millrace show` writes a page with the first batches of a pipeline, on which a wrong crop, a
// swapped channel, a label beside the wrong image or a word that is unknown is seen at once.

namespace millrace::cli {
namespace {

struct Flags {
  RunFlags run;
  std::string out;
  uint64_t batches = 1;
  uint64_t rows = 32;
};

absl::Status Append(AtomicFile& file, std::string_view text) {
  return file.Append(std::as_bytes(std::span(text)));
}

struct Shown {
  uint64_t batches = 0;
  int64_t rows = 0;
};

// Opens the watched plan. Its error messages would name other places than the file's, so an error
// is that of the plan itself.
absl::StatusOr<RunStream> Open(const RunFlags& flags, const pipeline::Plan& plan,
                               const pipeline::CropWatch& watch) {
  auto watched = OpenRunStream(flags, watch.watched(), watch.ops());
  return watched.ok() ? std::move(watched) : OpenRunStream(flags, plan);
}

absl::StatusOr<Shown> Show(const Flags& flags,
                           const std::map<std::string, std::string>& variables) {
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::Plan plan,
                            pipeline::Plan::FromFile(flags.run.file, variables));
  const auto watch = pipeline::CropWatch::Make(plan);
  MILLRACE_ASSIGN_OR_RETURN(const RunStream stream, Open(flags.run, plan, watch));
  const auto sheet = ContactSheet::Make(flags.run.file, plan, watch, *stream.pipeline);
  MILLRACE_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(flags.out));
  MILLRACE_RETURN_IF_ERROR(Append(*file, sheet.Begin()));
  const auto max_rows = static_cast<int64_t>(flags.rows);
  Shown shown;
  while (shown.batches < flags.batches) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream.pipeline->Next());
    if (!batch.has_value()) break;
    MILLRACE_RETURN_IF_ERROR(sheet.AppendSection(
        *batch, max_rows, [&](std::string_view html) { return Append(*file, html); }));
    watch.Forget(batch->ids());
    ++shown.batches;
    shown.rows += std::min(max_rows, batch->num_valid_rows());
  }
  if (shown.rows == 0) {
    return absl::NotFoundError(absl::StrCat(flags.run.file, ": the plan gives no sample"));
  }
  MILLRACE_RETURN_IF_ERROR(Append(*file, sheet.End()));
  MILLRACE_RETURN_IF_ERROR(file->Commit(/*sync=*/false));
  return shown;
}

int Run(const Flags& flags) {
  if (const absl::Status status = CheckRank(flags.run.rank, flags.run.world); !status.ok()) {
    return FailUsage(status);
  }
  const auto variables = ParseVariables(flags.run.variables);
  if (!variables.ok()) return FailUsage(variables.status());
  const auto shown = Show(flags, *variables);
  if (!shown.ok()) return Fail(shown.status());
  absl::PrintF("%s: %d samples of %d batch%s\n", flags.out, shown->rows, shown->batches,
               shown->batches == 1 ? "" : "es");
  return kDone;
}

}  // namespace

void AddShow(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "show", "Make a page of the first batches: images or a table, labels, stages");
  command.Add("file", flags->run.file, "Pipeline file (protobuf text format)").Required();
  command.Add("-o,--out", flags->out, "The page (HTML), which needs no other file").Required();
  command.Add("--var", flags->run.variables, "NAME=VALUE for ${NAME} in the file; repeatable")
      .OneValueEach();
  command.Add("--batches", flags->batches, "Batches").Whole(1, 1000).ShowDefault();
  command.Add("--rows", flags->rows, "Rows of each batch, at most").Whole(1, 4096).ShowDefault();
  command.Add("--rank", flags->run.rank, "Show this rank's slice of every batch")
      .Whole(0, kMaxInt)
      .ShowDefault();
  command.Add("--world", flags->run.world, "Number of ranks").Whole(1, kMaxInt).ShowDefault();
  command.Footer(
      "Example:\n  millrace show examples/imagenet/train.pbtxt --var DATA=shards -o page.html");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
