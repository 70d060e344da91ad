#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "cli/command.h"
#include "readers/example_view.h"
#include "readers/record_reader.h"
#include "readers/record_source.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  uint64_t count = 0;
  bool raw = false;
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

absl::Status PrintRecord(const std::string& file, const readers::Record& record, bool raw) {
  if (raw) {
    std::fwrite(record.payload.data(), 1, record.payload.size(), stdout);
    return absl::OkStatus();
  }
  Json line{{"file", file},
            {"ordinal", record.ref.ordinal},
            {"offset", record.ref.offset},
            {"bytes", record.payload.size()}};
  if (const auto features = readers::ViewExample(record.payload); features.ok()) {
    Json& object = line["features"] = Json::object();
    for (const auto& [key, values] : *features) object[key] = ToJson(values);
  } else {
    line["payload"] = BytesToJson(record.payload);
  }
  std::puts(line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  return absl::OkStatus();
}

absl::Status CatFiles(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const auto files, readers::ExpandFiles(flags.files));
  uint64_t printed = 0;
  for (const std::string& file : files) {
    MILLRACE_ASSIGN_OR_RETURN(const auto reader, readers::OpenTfRecordReader(file));
    while (flags.count == 0 || printed < flags.count) {
      MILLRACE_ASSIGN_OR_RETURN(const auto record, reader->Next());
      if (!record.has_value()) break;
      MILLRACE_RETURN_IF_ERROR(PrintRecord(file, *record, flags.raw));
      if (std::ferror(stdout) != 0) return absl::DataLossError("cannot write to standard output");
      ++printed;
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddCat(CLI::App& parent, Action& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* app = parent.add_subcommand("cat", "Print records, one JSON object per line");
  app->add_option("files", flags->files, "TFRecord files or glob patterns")->required();
  app->add_option("--count", flags->count, "Print so many records (0: all)");
  app->add_flag("--raw", flags->raw, "The payloads' bytes, one after the other");
  app->footer("Example:\n  millrace records cat data/train-00000-of-00008.tfrecord --count 3");
  app->callback([flags, &chosen] {
    chosen = [flags] {
      const absl::Status status = CatFiles(*flags);
      return status.ok() ? kDone : Fail(status);
    };
  });
}

}  // namespace millrace::cli
