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
#include "base/utf8.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/container.h"
#include "cli/flags/files.h"
#include "cli/flags/where.h"
#include "readers/container.h"
#include "readers/example_view.h"
#include "readers/scan.h"
#include "readers/view_record.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  ContainerFlags container_flags;
  std::optional<readers::ContainerOptions> container = {};
  uint64_t count = 0;
  bool raw = false;
  std::optional<std::string> where;
};

using Json = nlohmann::ordered_json;

bool HoldsExamples(const readers::ScanKind& kind) {
  return !kind.is_folder && kind.container.kind == readers::ContainerKind::kTfRecord;
}
bool HoldsText(const readers::ScanKind& kind) {
  return !kind.is_folder && (kind.container.kind == readers::ContainerKind::kText ||
                             kind.container.kind == readers::ContainerKind::kCsv);
}

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

// Text of any length as it is.
Json TextToJson(std::string_view bytes) {
  return IsUtf8(bytes) ? Json(std::string(bytes)) : BytesToJson(bytes);
}

Json ToJson(const readers::FeatureValues& values, bool is_text = false) {
  Json array = Json::array();
  if (const auto* bytes = std::get_if<std::vector<std::string_view>>(&values)) {
    for (std::string_view value : *bytes) {
      array.push_back(is_text ? TextToJson(value) : BytesToJson(value));
    }
  } else if (const auto* floats = std::get_if<std::vector<float>>(&values)) {
    for (float value : *floats) array.push_back(value);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&values)) {
    for (int64_t value : *ints) array.push_back(value);
  }
  return array;
}

// Adds the steps of a tf.train.SequenceExample. False: it is none.
bool AddFeatureLists(std::string_view payload, Json& line) {
  const auto lists = readers::ViewFeatureLists(payload);
  if (!lists.ok()) return false;
  for (const auto& [key, steps] : *lists) {
    Json& list = line["feature_lists"][key] = Json::array();
    for (const auto& values : steps) list.push_back(ToJson(values));
  }
  return true;
}

// Adds the named values of a record. False: it has none.
bool AddFeatures(std::string_view payload, const readers::ScanKind& kind,
                 readers::RecordViewer& viewer, Json& line) {
  const auto values = viewer.View(payload);
  if (!values.ok() || (values->empty() && !HoldsExamples(kind))) return false;
  Json& object = line["features"] = Json::object();
  for (const auto& [key, list] : *values) object[key] = ToJson(list, HoldsText(kind));
  if (!HoldsExamples(kind) || AddFeatureLists(payload, line)) return true;
  line.erase("features");
  return false;
}

void PrintRecord(const readers::ScannedRecord& record, const readers::ScanKind& kind,
                 readers::RecordViewer& viewer) {
  Json line{{"file", record.file},
            {"ordinal", record.ordinal},
            {"offset", record.offset},
            {"bytes", record.payload.size()}};
  if (!AddFeatures(record.payload, kind, viewer, line)) {
    line["payload"] = HoldsText(kind) ? TextToJson(record.payload) : BytesToJson(record.payload);
  }
  std::puts(line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// Prints records and keeps the first error for the end.
class Printer {
 public:
  // Prints the records that match `where`; all if it is null.
  Printer(const Flags& flags, Where* where) : flags_(flags), where_(where) {}

  // Prints a file, or a folder of images. False if no more files are to be printed.
  bool File(const std::string& file) {
    const readers::ScanKind kind = readers::KindOf(file, flags_.container);
    readers::RecordViewer viewer(kind);
    const readers::ScanVisitor visitor = {.on_columns = [&](const auto& names) -> absl::Status {
                                            MILLRACE_RETURN_IF_ERROR(columns_.Check(file, names));
                                            viewer.SetColumns(*names);
                                            return absl::OkStatus();
                                          },
                                          .on_record =
                                              [&](const readers::ScannedRecord& record) {
                                                PrintIfWanted(record, kind, viewer);
                                                return WantsMore();
                                              },
                                          .on_damage =
                                              [&](const absl::Status& status) {
                                                Note(status);
                                                return true;
                                              }};
    const readers::ScanFacts facts = readers::Scan(file, {.container = flags_.container}, visitor);
    if (!facts.unreadable.ok()) Note(facts.unreadable);
    for (const auto& image : facts.unreadable_images) Note(absl::UnavailableError(image.message));
    for (const std::string& note : facts.notes) Warn(note);
    return WantsMore();
  }

  absl::Status status() const {
    if (num_errors_ < 2) return first_error_;
    return absl::Status(first_error_.code(),
                        absl::StrCat(first_error_.message(), " (and ", num_errors_ - 1,
                                     " more; millrace records verify lists damage)"));
  }

 private:
  void PrintIfWanted(const readers::ScannedRecord& record, const readers::ScanKind& kind,
                     readers::RecordViewer& viewer) {
    const absl::StatusOr<bool> wanted = where_ == nullptr ? true : where_->Matches(record.payload);
    if (!wanted.ok()) {
      return Note(Annotate(wanted.status(),
                           ToStd(absl::StrCat(ToAbsl(record.file), ": record ", record.ordinal,
                                              " at offset ", record.offset))));
    }
    if (!*wanted) return;
    if (flags_.raw) {
      std::fwrite(record.payload.data(), 1, record.payload.size(), stdout);
    } else {
      PrintRecord(record, kind, viewer);
    }
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
  readers::SameColumns columns_;
  uint64_t printed_ = 0;
  uint64_t num_errors_ = 0;
  absl::Status first_error_;
};

// A condition is about features of Examples.
absl::Status CheckWhere(const std::vector<std::string>& files, const Flags& flags) {
  for (const std::string& file : files) {
    const readers::ScanKind kind = readers::KindOf(file, flags.container);
    if (HoldsExamples(kind)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--where: is for tf.train.Examples, and ", file, " holds ",
                     kind.is_folder ? "images" : readers::ToString(kind.container)));
  }
  return absl::OkStatus();
}

absl::Status CatFiles(const Flags& flags, Where* where) {
  MILLRACE_ASSIGN_OR_RETURN(const auto files, FilesAndFolders(flags.files));
  if (where != nullptr) MILLRACE_RETURN_IF_ERROR(CheckWhere(files, flags));
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

int Cat(Flags flags) {
  const auto container = flags.container_flags.Options(flags.files);
  if (!container.ok()) return FailUsage(container.status());
  flags.container = *container;
  if (const absl::Status status = CheckNoFolder(flags.files, *container); !status.ok()) {
    return FailUsage(status);
  }
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
  command.Add("files", flags->files, "Files or glob patterns; folders of images by class")
      .Required();
  AddContainerFlags(command, flags->container_flags);
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
