#include "cli/flags/container.h"

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "readers/convert_words.h"

namespace millrace::cli {
namespace {

std::vector<std::string> Words() {
  std::vector<std::string> words;
  for (const auto& name : readers::ContainerNames()) words.emplace_back(name.word);
  return words;
}

// True if the names of all files tell CSV, of one delimiter unless another is given.
bool TellOneCsv(const std::vector<std::string>& files, bool has_delimiter) {
  if (files.empty()) return false;
  const char first = readers::ContainerOfName(files.front()).delimiter;
  return std::ranges::all_of(files, [&](const std::string& file) {
    const readers::ContainerOptions told = readers::ContainerOfName(file);
    return told.kind == readers::ContainerKind::kCsv && (has_delimiter || told.delimiter == first);
  });
}

}  // namespace

absl::StatusOr<std::optional<readers::ContainerOptions>> ContainerFlags::Options(
    const std::vector<std::string>& files) const {
  readers::ContainerOptions options;
  const bool is_of_csv = has_header || delimiter.has_value();
  const bool by_name = word.empty() && is_of_csv && TellOneCsv(files, delimiter.has_value());
  if (by_name) options = readers::ContainerOfName(files.front());
  for (const auto& name : readers::ContainerNames()) {
    if (name.word == word) options.kind = name.kind;
  }
  const bool is_csv = options.kind == readers::ContainerKind::kCsv;
  const bool is_fixed = options.kind == readers::ContainerKind::kFixedLength;
  if (is_of_csv && !is_csv) {
    return absl::InvalidArgumentError(
        "--header and --delimiter go with --container csv, or with files whose names all tell one "
        "kind of it (.csv, .tsv)");
  }
  if ((record_bytes > 0) != is_fixed || (!is_fixed && header_bytes + footer_bytes > 0)) {
    return absl::InvalidArgumentError(
        "--record-bytes goes with --container fixed_length, which needs it, and so do "
        "--header-bytes and --footer-bytes");
  }
  if (word.empty() && !by_name) return std::nullopt;
  options.record_bytes = record_bytes;
  options.header_bytes = header_bytes;
  options.footer_bytes = footer_bytes;
  options.has_header = has_header;
  if (delimiter.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(options.delimiter,
                              readers::ParseDelimiter("--delimiter", *delimiter));
  }
  return options;
}

void AddContainerFlags(Command command, ContainerFlags& flags) {
  command
      .AddWord(
          "--container", [&flags](const std::string& word) { flags.word = word; },
          "Format of the files (default: by their names, else tfrecord)")
      .OneOf(Words());
  command.AddSwitch("--header", flags.has_header, "csv: the first row names the columns");
  command.Add("--delimiter", flags.delimiter,
              "csv: the byte between cells; \\t is a tab (default: a comma)");
  command.Add("--record-bytes", flags.record_bytes, "fixed_length: bytes of a record").Whole(1);
  command.Add("--header-bytes", flags.header_bytes, "fixed_length: bytes before the first record")
      .Whole(0);
  command.Add("--footer-bytes", flags.footer_bytes, "fixed_length: bytes behind the last record")
      .Whole(0);
}

}  // namespace millrace::cli
