#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/host.h"
#include "base/local_path.h"
#include "base/made_folder.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"
#include "readers/cache_folder.h"
#include "readers/container.h"
#include "readers/dali_index.h"
#include "readers/expand_files.h"
#include "readers/http_options.h"
#include "readers/kept_index.h"
#include "readers/record_source.h"

// `millrace records index`: makes the indexes that a pipeline would make when it is first opened,
// and with --dali those that DALI reads.

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  bool dali = false;
  std::string out;
  std::string out_folder;
  bool overwrite = false;
};

// The records of one file.
struct Indexed {
  uint64_t first = 0;
  uint64_t count = 0;
};

std::vector<Indexed> RecordsOfFiles(const readers::RecordSource& source) {
  std::vector<Indexed> files(source.files().size());
  for (uint64_t record = 0; record < source.num_records(); ++record) {
    Indexed& file = files[source.Locate(record).shard];
    if (file.count++ == 0) file.first = record;
  }
  return files;
}

// The path of the .idx of each file.
absl::StatusOr<std::vector<std::string>> NamesOf(const Flags& flags,
                                                 const std::vector<std::string>& files) {
  if (!flags.out.empty() && files.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out names the .idx of one file, and there are ", files.size()));
  }
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const std::string& file : files) {
    const bool is_url = readers::IsUrl(file);
    if (is_url && flags.out.empty() && flags.out_folder.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(readers::ShownUrl(file), ": give --out-folder for the .idx of a URL"));
    }
    std::string name = file + ".idx";
    if (!flags.out.empty()) name = flags.out;
    if (!flags.out_folder.empty()) {
      const std::string path = is_url ? file.substr(0, file.find_first_of("?#")) : file;
      const std::string base = path.substr(path.rfind('/') + 1);
      name = (std::filesystem::path(flags.out_folder) / (base + ".idx")).string();
    }
    std::error_code none;
    for (const std::string& data : files) {
      if (!std::filesystem::equivalent(name, data, none)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": is one of the files, not a name for a .idx"));
    }
    if (!taken.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": two files would have this .idx"));
    }
    names.push_back(std::move(name));
  }
  return names;
}

// Fails if a file is in the way, before any work is done.
absl::Status CheckFree(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::error_code error;
    if (!std::filesystem::exists(name, error)) continue;
    return absl::AlreadyExistsError(absl::StrCat(name, ": exists; --overwrite replaces it"));
  }
  return absl::OkStatus();
}

// Why files cannot be indexed, if the name of one tells another container than TFRecord.
absl::Status Explained(const absl::Status& status, const std::vector<std::string>& files) {
  const auto is_other = [](const std::string& file) {
    return readers::ContainerOfName(file).kind != readers::ContainerKind::kTfRecord;
  };
  const auto other = std::ranges::find_if(files, is_other);
  if (status.ok() || other == files.end()) return status;
  return Annotate(status,
                  absl::StrCat("index takes TFRecord alone, and the name of ", *other, " tells ",
                               readers::ToString(readers::ContainerOfName(*other)),
                               "; the indexes of text, csv and tar are made when a pipeline first "
                               "opens them, and fixed_length and idx need none"));
}

absl::StatusOr<std::unique_ptr<readers::RecordSource>> OpenFiles(
    const std::vector<std::string>& files) {
  readers::RecordSourceOptions options;
  options.threads = ReadCores().usable;
  Progress progress("index", "bytes");
  options.progress = progress.Callback();
  auto source = readers::RecordSource::Open(files, options);
  if (source.ok()) return source;
  return Explained(source.status(), files);
}

// Fails if the index of a file is not kept: making it was in vain then.
absl::Status CheckKept(const std::vector<std::string>& files, const readers::RecordSource& source) {
  size_t num_lost = 0;
  absl::Status first;
  for (uint32_t i = 0; i < files.size(); ++i) {
    const absl::Status kept = readers::CheckIndexKept(files[i], source, i);
    if (!kept.ok() && num_lost++ == 0) first = kept;
  }
  return Annotate(first, absl::StrCat(num_lost, " of ", files.size(), " indexes are not kept"));
}

absl::Status Run(Flags flags) {
  for (std::string* const name : {&flags.out, &flags.out_folder}) {
    MILLRACE_ASSIGN_OR_RETURN(*name, LocalPath(*name));
  }
  if (!flags.dali) MILLRACE_RETURN_IF_ERROR(readers::CacheFolder("").CheckUsable());
  MILLRACE_ASSIGN_OR_RETURN(const auto files, readers::ExpandFiles(flags.files));
  std::vector<std::string> names;
  std::optional<MadeFolder> out_folder;
  if (flags.dali) {
    MILLRACE_ASSIGN_OR_RETURN(names, NamesOf(flags, files));
    if (!flags.overwrite) MILLRACE_RETURN_IF_ERROR(CheckFree(names));
    for (const std::string& file : files) {
      MILLRACE_RETURN_IF_ERROR(readers::CheckMayHaveDaliIndex(file));
    }
    if (!flags.out_folder.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(flags.out_folder));
      out_folder.emplace(std::move(made));
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto source, OpenFiles(files));
  const std::vector<Indexed> indexed = RecordsOfFiles(*source);
  absl::PrintF("%-48s %9s %10s\n", "file", "records", "size");
  for (uint32_t i = 0; i < indexed.size(); ++i) {
    if (flags.dali) {
      MILLRACE_RETURN_IF_ERROR(
          readers::WriteDaliIndex(*source, indexed[i].first, indexed[i].count, names[i],
                                  flags.overwrite ? Existing::kReplace : Existing::kKeep));
    }
    const auto stamp = source->stamp(i);
    absl::PrintF("%-48s %9d %10s\n", source->files()[i], indexed[i].count,
                 BytesText(stamp.has_value() ? static_cast<double>(stamp->file_size) : 0));
  }
  absl::PrintF("%d files, %d records\n", indexed.size(), source->num_records());
  return flags.dali ? absl::OkStatus() : CheckKept(files, *source);
}

}  // namespace

void AddIndex(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "index", "Make the indexes of files now, so that pipelines open at once; also DALI's .idx");
  command.Add("files", flags->files, "TFRecord files or glob patterns").Required();
  command.AddSwitch("--dali", flags->dali,
                    "Write what tfrecord2idx writes: FILE.idx beside each file, plain ones only");
  Flag out = command.Add("--out", flags->out, "With --dali: the name of the .idx of one file");
  command
      .Add("--out-folder", flags->out_folder,
           "With --dali: the folder for all .idx files; made if it is missing")
      .Excludes(out);
  command.AddSwitch("--overwrite", flags->overwrite, "Replace existing .idx files");
  command.Footer(
      "Indexes are kept in $XDG_CACHE_HOME/millrace or ~/.cache/millrace.\n"
      "Examples:\n  millrace records index data/*.tfrecord\n"
      "  millrace records index --dali --out-folder idx data/*.tfrecord");
  command.Do([flags] {
    if (!flags->dali && (!flags->out.empty() || !flags->out_folder.empty() || flags->overwrite)) {
      return FailUsage("--out, --out-folder and --overwrite are about the files of --dali");
    }
    const absl::Status status = Run(*flags);
    return status.ok() ? kDone : Fail(status);
  });
}

}  // namespace millrace::cli
