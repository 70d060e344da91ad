#include "readers/convert.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/flag_checks.h"
#include "cli/human_bytes.h"
#include "cli/progress.h"

namespace millrace::cli {
namespace {

struct Flags {
  readers::ConvertOptions options;
  std::string out;
  std::string prefix = "data";
};

absl::StatusOr<readers::ConvertReport> ConvertFiles(Flags flags) {
  std::error_code error;
  std::filesystem::create_directories(flags.out, error);
  if (error) return ErrnoStatus(error.value(), "create folder", flags.out);
  flags.options.output_prefix = (std::filesystem::path(flags.out) / flags.prefix).string();
  Progress progress("convert", "images");
  return readers::Convert(flags.options, progress.Callback());
}

void Print(const readers::ConvertReport& report) {
  absl::PrintF("%d images, %s in %d shards\n", report.num_images,
               HumanBytes(static_cast<double>(report.file_bytes)), report.files.size());
  absl::PrintF("  %s\n", report.files.front());
  if (report.files.size() > 1) absl::PrintF("  ... %s\n", report.files.back());
  for (const auto& [label, count] : report.images_per_label) {
    const bool named = label >= 0 && static_cast<size_t>(label) < report.class_names.size();
    // A long list of classes would hide the rest.
    if (report.images_per_label.size() > 20) break;
    absl::PrintF("  label %d: %d%s%s\n", label, count, named ? "  " : "",
                 named ? report.class_names[label] : "");
  }
  if (report.images_per_label.size() > 20) {
    absl::PrintF("  %d labels\n", report.images_per_label.size());
  }
}

const std::map<std::string, readers::ConvertInput> kInputs = {
    {"idx", readers::ConvertInput::kIdx}, {"images", readers::ConvertInput::kImages}};
const std::map<std::string, readers::Compression> kCompressions = {
    {"none", readers::Compression::kNone},
    {"gzip", readers::Compression::kGzip},
    {"zlib", readers::Compression::kZlib}};

template <typename T>
std::vector<std::string> Words(const std::map<std::string, T>& meanings) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : meanings) words.push_back(word);
  return words;
}

}  // namespace

void AddConvert(CLI::App& parent, Action& chosen) {
  auto flags = std::make_shared<Flags>();
  readers::ConvertOptions& options = flags->options;
  CLI::App* app = parent.add_subcommand("convert", "Write images as TFRecord shards of Examples");
  // The checks list the words; CLI11's transformers would list the enums' numbers too.
  app->add_option_function<std::string>(
         "--from", [&options](const std::string& word) { options.input = kInputs.at(word); },
         "What is read: idx, or images (a folder or a tar)")
      ->required()
      ->check(CLI::IsMember(Words(kInputs)));
  app->add_option("--images", options.images, "The IDX file of images, the folder, or the tar")
      ->required();
  app->add_option("--labels", options.labels,
                  "The IDX file of labels (default: named as the images are, with labels-idx1)");
  app->add_option("--label", options.label, "The label of images whose names tell no class");
  app->add_option("--out", flags->out, "Folder for the shards; made when it is missing")
      ->required();
  app->add_option("--prefix", flags->prefix, "Shards are PREFIX-00000-of-00008.tfrecord")
      ->capture_default_str();
  app->add_option("--shards", options.num_shards, "How many shards")
      ->check(Whole(1, 99999))
      ->capture_default_str();
  app->add_option("--shuffle", options.shuffle_seed, "Shuffle the records first, with this seed")
      ->check(Whole(0));
  app->add_option_function<std::string>(
         "--compression",
         [&options](const std::string& word) { options.compression = kCompressions.at(word); },
         "none, gzip or zlib")
      ->check(CLI::IsMember(Words(kCompressions)));
  app->add_flag("--overwrite", options.overwrite, "Replace the shards of this prefix that exist");
  app->footer(
      "Examples:\n"
      "  millrace records convert --from idx --images train-images-idx3-ubyte.gz "
      "--out data --prefix train --shards 8\n"
      "  millrace records convert --from images --images photos/ --out data --shards 4 "
      "--shuffle 1\n"
      "  millrace records convert --from images --images imagenet.tar --out data --prefix train");
  app->callback([flags, &chosen] {
    chosen = [flags] {
      const auto report = ConvertFiles(*flags);
      if (!report.ok()) return Fail(report.status());
      Print(*report);
      return kDone;
    };
  });
}

}  // namespace millrace::cli
