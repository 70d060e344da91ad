#include "readers/convert.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/permutation.h"
#include "base/status.h"
#include "readers/example_builder.h"
#include "readers/image_source.h"
#include "readers/record_writer.h"
#include "readers/shard_set_internal.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> LabelsPath(const ConvertOptions& options) {
  if (!options.labels.empty()) return options.labels;
  constexpr std::string_view kImagesPart = "images-idx3";
  std::string path = options.images;
  const size_t at = path.rfind(kImagesPart);
  if (at == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("labels: needed, because '", options.images,
                                                   "' has no 'images-idx3' in its name"));
  }
  return path.replace(at, kImagesPart.size(), "labels-idx1");
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenSource(const ConvertOptions& options) {
  if (options.input == ConvertInput::kIdx) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string labels, LabelsPath(options));
    return OpenIdxImages(options.images, labels);
  }
  std::error_code error;
  const bool is_folder = fs::is_directory(options.images, error);
  if (error) return ErrnoStatus(error.value(), "stat", options.images);
  if (is_folder) return OpenImageFolder(options.images, {.label = options.label});
  ImageTarOptions tar;
  tar.labels.label = options.label;
  tar.random_access = options.shuffle_seed.has_value();
  tar.max_memory_bytes = options.max_memory_bytes;
  return OpenImageTar(options.images, tar);
}

std::string MakeExample(const SourceImage& image) {
  ExampleBuilder example;
  example.AddBytes("image/encoded", image.encoded);
  example.AddBytes("image/format", image.format);
  example.AddInt("image/class/label", image.label);
  if (!image.label_text.empty()) example.AddBytes("image/class/text", image.label_text);
  example.AddBytes("image/filename", image.filename);
  example.AddInt("image/height", image.height);
  example.AddInt("image/width", image.width);
  return example.Serialize();
}

class Conversion {
 public:
  Conversion(const ConvertOptions& options, const ConvertProgress& progress)
      : options_(options), progress_(progress) {}

  absl::StatusOr<ConvertReport> Run() {
    MILLRACE_RETURN_IF_ERROR(
        ShardSet::Check(options_.output_prefix, options_.num_shards, options_.overwrite));
    MILLRACE_ASSIGN_OR_RETURN(source_, OpenSource(options_));
    total_ = source_->num_images();
    if (static_cast<uint64_t>(options_.num_shards) > total_) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_shards: ", options_.num_shards, " shards for ", total_, " images"));
    }
    if (options_.shuffle_seed.has_value()) order_.emplace(total_, *options_.shuffle_seed);
    MILLRACE_ASSIGN_OR_RETURN(shards_, ShardSet::Begin({.prefix = options_.output_prefix,
                                                        .num_shards = options_.num_shards,
                                                        .overwrite = options_.overwrite,
                                                        .job = Job()}));
    for (size_t shard = 0; shard < shards_->files().size(); ++shard) {
      if (!shards_->Written(shard).has_value()) MILLRACE_RETURN_IF_ERROR(WriteShard(shard));
      Report(shard);
    }
    report_.files = shards_->files();
    report_.class_names = source_->class_names();
    MILLRACE_RETURN_IF_ERROR(shards_->Commit({.compression = options_.compression,
                                              .source = options_.images,
                                              .class_names = report_.class_names}));
    return std::move(report_);
  }

 private:
  // All that the bytes of the shards come from.
  uint64_t Job() const {
    const std::string text = absl::StrCat(
        "convert 1 ", AbsolutePath(options_.images), " ", source_->Fingerprint(), " ",
        options_.num_shards, " ",
        options_.shuffle_seed.has_value() ? absl::StrCat(*options_.shuffle_seed) : "-", " ",
        options_.label.has_value() ? absl::StrCat(*options_.label) : "-", " ",
        ToAbsl(CompressionName(options_.compression)), " ", options_.compression_level);
    return XXH3_64bits(text.data(), text.size());
  }

  uint64_t FirstOf(size_t shard) const { return shard * total_ / shards_->files().size(); }

  absl::Status WriteShard(size_t shard) {
    MILLRACE_ASSIGN_OR_RETURN(
        const std::unique_ptr<TfRecordWriter> writer,
        TfRecordWriter::Open(shards_->PathOf(shard),
                             {.compression = options_.compression,
                              .compression_level = options_.compression_level}));
    ShardFacts facts;
    for (uint64_t i = FirstOf(shard); i < FirstOf(shard + 1); ++i) {
      const uint64_t index = order_.has_value() ? (*order_)(i) : i;
      MILLRACE_ASSIGN_OR_RETURN(const SourceImage image, source_->Read(index));
      MILLRACE_RETURN_IF_ERROR(writer->Write(MakeExample(image)));
      ++facts.num_records;
      ++facts.records_per_label[image.label];
      if (progress_) progress_(static_cast<int64_t>(i + 1), static_cast<int64_t>(total_));
    }
    MILLRACE_RETURN_IF_ERROR(writer->Close());
    return shards_->Wrote(shard, std::move(facts));
  }

  void Report(size_t shard) {
    const ShardFacts& facts = *shards_->Written(shard);
    report_.num_images += facts.num_records;
    report_.file_bytes += facts.file_bytes;
    for (const auto& [label, count] : facts.records_per_label) {
      report_.images_per_label[label] += count;
    }
  }

  const ConvertOptions& options_;
  const ConvertProgress& progress_;
  std::unique_ptr<ImageSource> source_;
  uint64_t total_ = 0;
  std::optional<Permutation> order_;
  std::unique_ptr<ShardSet> shards_;
  ConvertReport report_;
};

}  // namespace

absl::Status ConvertOptions::Validate() const {
  if (images.empty()) return absl::InvalidArgumentError("images: no path given");
  if (input == ConvertInput::kIdx && label.has_value()) {
    return absl::InvalidArgumentError("label: IDX files hold their own labels");
  }
  if (input == ConvertInput::kImages && !labels.empty()) {
    return absl::InvalidArgumentError("labels: only IDX files have a file of labels");
  }
  if (max_memory_bytes < 0) return absl::InvalidArgumentError("max_memory_bytes: is negative");
  return CheckShardOutput(output_prefix, num_shards, compression, compression_level);
}

absl::StatusOr<ConvertReport> Convert(const ConvertOptions& options,
                                      const ConvertProgress& progress) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  return Conversion(options, progress).Run();
}

}  // namespace millrace::readers
