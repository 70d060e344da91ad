#include "readers/convert.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "augment/image_recoder_words.h"
#include "base/bytes_text.h"
#include "base/host.h"
#include "base/local_path.h"
#include "base/made_folder.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/checks.h"
#include "cli/flags/compression.h"
#include "cli/wait/phases.h"
#include "readers/convert_words.h"
#include "readers/expand_files.h"
#include "readers/image_source.h"

namespace millrace::cli {
namespace {

using readers::ConvertFormat;

struct Flags {
  readers::ConvertOptions options;
  std::vector<std::string> files;
  std::string schema;
  std::string features;
  std::string delimiter = ",";
  std::string classes;
  augment::ImageRecoderWords recoder;
  int threads = 0;  // 0: all usable cores
  std::string out;
  std::string prefix = "data";
};

// The records that cannot be converted, for one summary at the end.
struct BadList {
  static constexpr size_t kMost = 100;

  void Add(const absl::Status& error) {
    ++count;
    if (messages.size() < kMost) messages.emplace_back(error.message());
  }

  std::vector<std::string> messages;  // of the first kMost
  uint64_t count = 0;
};

// Converts the words to options; an error is one of the command line.
absl::Status Complete(Flags& flags) {
  readers::ConvertOptions& options = flags.options;
  if (!flags.schema.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(options.schema, readers::ParseConvertSchema(flags.schema));
  }
  if (!flags.features.empty()) {
    options.features = readers::ParseConvertFeatures(flags.features);
  }
  if (!flags.classes.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(options.classes, readers::ReadClassNames(flags.classes));
  }
  MILLRACE_ASSIGN_OR_RETURN(options.container.delimiter,
                            readers::ParseDelimiter("--delimiter", flags.delimiter));
  MILLRACE_ASSIGN_OR_RETURN(options.codec, augment::MakeImageRecoder(flags.recoder));
  MILLRACE_RETURN_IF_ERROR(CheckPrefix(flags.prefix));
  options.threads = flags.threads > 0 ? flags.threads : ReadCores().usable;
  for (std::string* const name : {&flags.out, &options.images, &options.labels}) {
    MILLRACE_ASSIGN_OR_RETURN(*name, LocalPath(*name));
  }
  options.output_prefix = (std::filesystem::path(flags.out) / flags.prefix).string();
  options.files = flags.files;
  return options.Validate();
}

bool HoldsImages(ConvertFormat format) {
  return format == ConvertFormat::kIdx || format == ConvertFormat::kImages;
}

absl::StatusOr<readers::ConvertReport> ConvertFiles(Flags& flags, BadList& bad) {
  readers::ConvertOptions& options = flags.options;
  options.warn = Warn;
  options.tell_bad = [&bad](const absl::Status& error) { bad.Add(error); };
  if (!options.files.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(options.files, readers::ExpandFiles(options.files));
  }
  MILLRACE_ASSIGN_OR_RETURN(const MadeFolder out, MadeFolder::Make(flags.out));
  Phases phases;
  phases.Begin("index", "bytes");
  options.index_progress = phases.Callback("index", "bytes");
  const std::string unit = HoldsImages(options.from) ? "images" : "records";
  return readers::Convert(options, phases.Callback("convert", unit));
}

void PrintLabels(const readers::ConvertReport& report) {
  constexpr size_t kMost = 20;  // a long list of classes would hide the rest
  if (report.records_per_label.size() > kMost) {
    absl::PrintF("  %d labels\n", report.records_per_label.size());
    return;
  }
  for (const auto& [label, count] : report.records_per_label) {
    const bool named = label >= 0 && static_cast<size_t>(label) < report.class_names.size();
    absl::PrintF("  label %d: %d%s%s\n", label, count, named ? "  " : "",
                 named ? ShownText(report.class_names[label]) : "");
  }
}

void PrintLeftOut(const readers::ConvertReport& report, const BadList& bad) {
  if (report.num_images_not_read > 0) {
    absl::PrintF("left out: %d image%s of kinds that are not read\n", report.num_images_not_read,
                 report.num_images_not_read == 1 ? "" : "s");
  }
  if (report.num_left_out == 0) return;
  absl::PrintF("left out: %d that cannot be converted\n", report.num_left_out);
  for (const std::string& message : bad.messages) absl::PrintF("  %s\n", ShownMessage(message));
  if (report.num_left_out > bad.messages.size()) {
    absl::PrintF("  ... and %d more\n", report.num_left_out - bad.messages.size());
  }
}

// Tells all that cannot be converted, if it is more than the error says.
void TellBad(const BadList& bad) {
  if (bad.count < 2) return;
  for (const std::string& message : bad.messages) Warn(message);
  if (bad.count > bad.messages.size()) {
    Warn(absl::StrCat(bad.count - bad.messages.size(), " more; --quarantine FILE lists all"));
  }
}

void Print(const readers::ConvertReport& report, ConvertFormat from) {
  absl::PrintF("%d %s, %s in %d shards\n", report.num_records,
               HoldsImages(from) ? "images" : "records", BytesText(report.file_bytes),
               report.files.size());
  absl::PrintF("  %s\n", report.files.front());
  if (report.files.size() > 1) absl::PrintF("  ... %s\n", report.files.back());
  PrintLabels(report);
}

int ConvertAndPrint(Flags& flags) {
  if (const absl::Status status = Complete(flags); !status.ok()) return FailUsage(status);
  BadList bad;
  const auto report = ConvertFiles(flags, bad);
  if (!report.ok()) {
    TellBad(bad);
    return Fail(report.status());
  }
  Print(*report, flags.options.from);
  PrintLeftOut(*report, bad);
  return kDone;
}

std::map<std::string, ConvertFormat> Formats() {
  std::map<std::string, ConvertFormat> formats;
  for (int i = 0; i <= static_cast<int>(ConvertFormat::kImages); ++i) {
    const auto format = static_cast<ConvertFormat>(i);
    formats.emplace(readers::ConvertFormatName(format), format);
  }
  return formats;
}

Flag AddFormat(Command& command, const std::string& name, ConvertFormat& format,
               const std::string& about) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : Formats()) words.push_back(word);
  return command
      .AddWord(
          name, [&format](const std::string& word) { format = Formats().at(word); }, about)
      .OneOf(words);
}

void AddInputFlags(Command& command, Flags& flags) {
  readers::ConvertOptions& options = flags.options;
  command.Add("files", flags.files, "The input: files, patterns, URLs; not for idx and images");
  command.Add("--images", options.images,
              "The IDX file of images, the folder of images, or the tar of them");
  command.Add("--labels", options.labels,
              "The IDX file of labels (default: the name of the images' file, with labels-idx1)");
  command.Add("--label", options.label, "The label of images whose names give no class").Integer();
  command.Add("--classes", flags.classes,
              "A file with a class of images per line, in the order of the labels (default: all "
              "folders, sorted)");
  command.AddSwitch("--strict", options.strict,
                    "Images of kinds that are not read (.webp, .tif, ...) are an error");
  AddCompressionFlag(
      command, options.input_compression, "--input-compression",
      "Compression of the input: none, gzip, zlib or zstd (default: by the first bytes)");
  command.AddSwitch("--header", options.container.has_header,
                    "The first row of CSV names the columns (else: the schema, in order)");
  command
      .Add("--delimiter", flags.delimiter,
           "The byte between the columns of CSV input; \\t is a tab")
      .ShowDefault();
  command
      .Add("--record-bytes", options.container.record_bytes,
           "Bytes of a record of fixed_length input")
      .Whole(1);
  command.Add("--header-bytes", options.container.header_bytes, "Bytes before the first record")
      .Whole(0);
  command.Add("--footer-bytes", options.container.footer_bytes, "Bytes behind the last record")
      .Whole(0);
}

void AddSampleFlags(Command& command, Flags& flags) {
  command.Add("--schema", flags.schema,
              "NAME:DTYPE,... of csv, jsonl and tar; bytes, int64 or float32, then [] for a list, "
              "? if it may be missing");
  command.AddSwitch("--allow-nan", flags.options.allow_nan,
                    "jsonl: NaN, Infinity and -Infinity are numbers");
  command.Add("--feature", flags.options.feature,
              "The name of the feature that holds a record of text or fixed_length");
  command.Add("--features", flags.features, "The features to copy: NAME or NAME=NEW,...");
}

void AddWriteMode(Command& command, Flags& flags, const Flag& encoding) {
  command
      .Add("--write-mode", flags.recoder.write_mode,
           "Write images as FFCV does; raw is a PNG that is not compressed")
      .OneOf({"raw", "jpg", "smart", "proportion"})
      .Excludes(encoding);
  command
      .Add("--smart-threshold", flags.recoder.smart_threshold,
           "For smart: the most bytes of raw pixels; larger images become JPEG")
      .Whole(0);
  command
      .Add("--compress-probability", flags.recoder.compress_probability,
           "For proportion: the probability that an image becomes JPEG (default: 0.5)")
      .Finite(0, 1);
  command.Add("--write-seed", flags.recoder.write_seed, "For proportion: the seed (default: 0)")
      .Whole(0);
}

void AddImageFlags(Command& command, Flags& flags) {
  augment::ImageRecoderWords& recoder = flags.recoder;
  Flag longer = command
                    .Add("--max-resolution", recoder.max_resolution,
                         "Shrink images until their longer side has at most this many pixels")
                    .Integer();
  command
      .Add("--min-resolution", recoder.min_resolution,
           "Shrink images until their shorter side has at most this many pixels")
      .Integer()
      .Excludes(longer);
  command
      .Add("--jpeg-quality", flags.recoder.jpeg_quality,
           "Quality of images that are re-encoded as JPEG (default: 90)")
      .Whole(1, 100);
  command.AddSwitch("--upright", recoder.upright,
                    "Turn images as their EXIF orientation says (default: it is kept)");
  Flag encoding = command.Add("--image-encoding", recoder.image_encoding,
                              "Write all images as jpeg, or as raw pixels (default: as they are)");
  encoding.OneOf({"jpeg", "raw"});
  AddWriteMode(command, flags, encoding);
  command
      .AddWord(
          "--check-images",
          [&flags](const std::string& word) {
            flags.options.check_images =
                word == "decode" ? readers::ConvertCheck::kDecode : readers::ConvertCheck::kHeader;
          },
          "Check images that are not encoded anew: their headers (header, the default of --from "
          "images), or all pixels (decode)")
      .OneOf({"header", "decode"});
  command.Add("--image-feature", flags.options.image_feature,
              "The feature that holds the image (default: image/encoded, jpg, jpeg or png)");
}

void AddDamageFlags(Command& command, readers::ConvertOptions& options) {
  command
      .AddWord(
          "--on-damage",
          [&options](const std::string& word) {
            options.on_damage =
                word == "skip" ? readers::ConvertDamage::kSkip : readers::ConvertDamage::kFail;
          },
          "Records that cannot be converted: tell all of them and write nothing (fail, the "
          "default), or leave them out (skip)")
      .OneOf({"fail", "skip"});
  command.Add("--quarantine", options.quarantine_file,
              "Append a line for each record that cannot be converted to this file (see records "
              "verify --from)");
}

void AddOutputFlags(Command& command, Flags& flags) {
  readers::ConvertOptions& options = flags.options;
  command.Add("--out", flags.out, "Folder for the shards; made if it is missing").Required();
  command.Add("--prefix", flags.prefix, "Shards are PREFIX-00000-of-00008.tfrecord").ShowDefault();
  command.Add("--suffix", options.suffix,
              "How the shards' names end: .tfrecord.gz where they are compressed with gzip "
              "(default: .tfrecord, as the format's do)");
  command.Add("--shards", options.num_shards, "Number of shards").Whole(1, 99999).ShowDefault();
  command.Add("--shuffle", options.shuffle_seed, "Shuffle the records first, with this seed")
      .Whole(0);
  AddCompressionFlag(command, options.compression);
  command.AddSwitch("--overwrite", options.overwrite, "Replace existing shards of this prefix");
  command
      .Add("--threads", flags.threads, "Threads that read and encode (default: all usable cores)")
      .Whole(1, 4096);
}

}  // namespace

void AddConvert(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand("convert", "Copy records from one container to another");
  // The checks list the words; CLI11's transformers would list the enums' numbers too.
  AddFormat(command, "--from", flags->options.from, "Format of the input").Required();
  AddFormat(command, "--to", flags->options.to, "Format of the output (default: tfrecord)");
  AddInputFlags(command, *flags);
  AddSampleFlags(command, *flags);
  AddImageFlags(command, *flags);
  AddDamageFlags(command, flags->options);
  AddOutputFlags(command, *flags);
  command.Footer(
      "Records of tfrecord, text and fixed_length are copied into each other byte by byte. Other\n"
      "formats hold samples of named features: tf.train.Examples, rows of csv, objects of jsonl,\n"
      "samples of tar, images with labels (idx, images); a record of text or fixed_length becomes\n"
      "one feature of a sample (--feature). docs/convert.md lists the limits of each format.\n"
      "The containers range and memory are not files and cannot be converted.\n"
      "If it is killed, the same command continues with the unfinished shard.\n"
      "Examples:\n"
      "  millrace records convert --from idx --images train-images-idx3-ubyte.gz "
      "--out data --prefix train --shards 8\n"
      "  millrace records convert --from images --images photos/ --out data --shards 4 "
      "--shuffle 1 --max-resolution 500\n"
      "  millrace records convert --from csv --header --schema 'label:int64,text:bytes' all.csv "
      "--out data\n"
      "  millrace records convert --from tfrecord --to tar 'data/train-*' "
      "--features image/encoded=jpg,image/class/label=cls --out tars");
  command.Do([flags] { return ConvertAndPrint(*flags); });
}

}  // namespace millrace::cli
