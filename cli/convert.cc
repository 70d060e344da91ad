#include "readers/convert.h"

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
    {"zlib", readers::Compression::kZlib},
    {"zstd", readers::Compression::kZstd}};

template <typename T>
std::vector<std::string> Words(const std::map<std::string, T>& meanings) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : meanings) words.push_back(word);
  return words;
}

}  // namespace

void AddConvert(Command parent) {
  auto flags = std::make_shared<Flags>();
  readers::ConvertOptions& options = flags->options;
  Command command = parent.AddCommand("convert", "Write images as TFRecord shards of Examples");
  // The checks list the words; CLI11's transformers would list the enums' numbers too.
  command
      .AddWord(
          "--from", [&options](const std::string& word) { options.input = kInputs.at(word); },
          "What is read: idx, or images (a folder or a tar)")
      .Required()
      .OneOf(Words(kInputs));
  command.Add("--images", options.images, "The IDX file of images, the folder, or the tar")
      .Required();
  command.Add("--labels", options.labels,
              "The IDX file of labels (default: named as the images are, with labels-idx1)");
  command.Add("--label", options.label, "The label of images whose names tell no class");
  command.Add("--out", flags->out, "Folder for the shards; made when it is missing").Required();
  command.Add("--prefix", flags->prefix, "Shards are PREFIX-00000-of-00008.tfrecord").ShowDefault();
  command.Add("--shards", options.num_shards, "How many shards").Whole(1, 99999).ShowDefault();
  command.Add("--shuffle", options.shuffle_seed, "Shuffle the records first, with this seed")
      .Whole(0);
  command
      .AddWord(
          "--compression",
          [&options](const std::string& word) { options.compression = kCompressions.at(word); },
          "none, gzip, zlib or zstd")
      .OneOf(Words(kCompressions));
  command.AddSwitch("--overwrite", options.overwrite,
                    "Replace the shards of this prefix that exist");
  command.Footer(
      "Examples:\n"
      "  millrace records convert --from idx --images train-images-idx3-ubyte.gz "
      "--out data --prefix train --shards 8\n"
      "  millrace records convert --from images --images photos/ --out data --shards 4 "
      "--shuffle 1\n"
      "  millrace records convert --from images --images imagenet.tar --out data --prefix train");
  command.Do([flags] {
    const auto report = ConvertFiles(*flags);
    if (!report.ok()) return Fail(report.status());
    Print(*report);
    return kDone;
  });
}

}  // namespace millrace::cli
