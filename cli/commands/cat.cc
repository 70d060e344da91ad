#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/where.h"
#include "readers/example_view.h"
#include "readers/expand_files.h"
#include "readers/record_reader.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  uint64_t count = 0;
  bool raw = false;
  std::optional<std::string> where;
};

using Json = nlohmann::ordered_json;

// Short printable text as it is, anything else as its length and first bytes in hexadecimal.
Json BytesToJson(std::string_view bytes) {
  constexpr size_t kMaxText = 256;
  constexpr size_t kHexBytes = 16;
  bool printable = bytes.size() <= kMaxText;
  for (size_t i = 0; printable && i < bytes.size(); ++i) {
    printable = bytes[i] >= 0x20 && bytes[i] < 0x7f;
  }
  if (printable) return std::string(bytes);
  std::string hex;
  for (size_t i = 0; i < std::min(kHexBytes, bytes.size()); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(bytes[i]));
    hex += digits;
  }
  return {{"bytes", bytes.size()}, {"begins", hex}};
}

Json ToJson(const readers::FeatureValues& values) {
  Json array = Json::array();
  if (const auto* bytes = std::get_if<std::vector<std::string_view>>(&values)) {
    for (std::string_view value : *bytes) array.push_back(BytesToJson(value));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&values)) {
    for (float value : *floats) array.push_back(value);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&values)) {
    for (int64_t value : *ints) array.push_back(value);
  }
  return array;
}

void PrintRecord(const std::string& file, const readers::Record& record, bool raw) {
  if (raw) {
    std::fwrite(record.payload.data(), 1, record.payload.size(), stdout);
    return;
  }
  Json line{{"file", file},
            {"ordinal", record.ref.ordinal},
            {"offset", record.ref.offset},
            {"bytes", record.payload.size()}};
  const auto features = readers::ViewExample(record.payload);
  const auto lists = readers::ViewFeatureLists(record.payload);
  if (features.ok() && lists.ok()) {
    Json& object = line["features"] = Json::object();
    for (const auto& [key, values] : *features) object[key] = ToJson(values);
    for (const auto& [key, steps] : *lists) {
      Json& list = line["feature_lists"][key] = Json::array();
      for (const auto& values : steps) list.push_back(ToJson(values));
    }
  } else {
    line["payload"] = BytesToJson(record.payload);
  }
  std::puts(line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// Prints records and keeps the first error for the end.
class Printer {
 public:
  // Prints the records that match `where`; all if it is null.
  Printer(const Flags& flags, Where* where) : flags_(flags), where_(where) {}

  // Prints a file. False if no more files are to be printed.
  bool File(const std::string& file) {
    const auto reader = readers::OpenTfRecordReader(file, {.resync = true});
    if (!reader.ok()) {
      Note(reader.status());
      return true;
    }
    while (WantsMore()) {
      const auto record = (*reader)->Next();
      if (record.ok() && !record->has_value()) return true;
      if (record.ok()) {
        PrintIfWanted(file, **record);
        continue;
      }
      Note(record.status());
      if (!(*reader)->ReadsOn()) return true;
    }
    return false;
  }

  absl::Status status() const {
    if (num_errors_ < 2) return first_error_;
    return absl::Status(first_error_.code(),
                        absl::StrCat(first_error_.message(), " (and ", num_errors_ - 1,
                                     " more; millrace records verify lists damage)"));
  }

 private:
  void PrintIfWanted(const std::string& file, const readers::Record& record) {
    const absl::StatusOr<bool> wanted = where_ == nullptr ? true : where_->Matches(record.payload);
    if (!wanted.ok()) {
      return Note(
          Annotate(wanted.status(), ToStd(absl::StrCat(file, ": record ", record.ref.ordinal,
                                                       " at offset ", record.ref.offset))));
    }
    if (!*wanted) return;
    PrintRecord(file, record, flags_.raw);
    ++printed_;
  }
  // Output after a failed write is not read; main reports the failure.
  bool WantsMore() const {
    return (flags_.count == 0 || printed_ < flags_.count) && std::ferror(stdout) == 0;
  }
  void Note(const absl::Status& status) {
    if (num_errors_++ == 0) first_error_ = status;
  }

  const Flags& flags_;
  Where* const where_;
  uint64_t printed_ = 0;
  uint64_t num_errors_ = 0;
  absl::Status first_error_;
};

absl::Status CatFiles(const Flags& flags, Where* where) {
  MILLRACE_ASSIGN_OR_RETURN(const auto files, readers::ExpandFiles(flags.files));
  Printer printer(flags, where);
  for (const std::string& file : files) {
    if (!printer.File(file)) break;
  }
  if (where != nullptr) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", where->Summary().c_str());
  }
  return printer.status();
}

int Cat(const Flags& flags) {
  std::optional<Where> where;
  if (flags.where.has_value()) {
    absl::StatusOr<Where> parsed = Where::Parse(*flags.where);
    if (!parsed.ok()) {
      return FailUsage(Annotate(parsed.status(), "--where"));
    }
    where.emplace(*std::move(parsed));
  }
  const absl::Status status = CatFiles(flags, where ? &*where : nullptr);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace

void AddCat(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand("cat", "Print records, one JSON object per line");
  command.Add("files", flags->files, "TFRecord files or glob patterns").Required();
  command.Add("--count", flags->count, "Number of records to print (0: all)").Whole(0);
  command.AddSwitch("--raw", flags->raw, "Print the payloads' bytes, one after the other");
  command.Add("--where", flags->where,
              "Print only records whose features fulfil this condition (docs/predicates.md)");
  command.Footer(
      "Damaged records are left out; the first is reported at the end, with exit code 1.\n"
      "Example:\n"
      "  millrace records cat data/train-00000-of-00008.tfrecord --count 3\n"
      "  millrace records cat 'data/train-*' --where '`image/class/label` in (3, 5)'");
  command.Do([flags] { return Cat(*flags); });
}

}  // namespace millrace::cli
