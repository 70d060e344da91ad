#include "readers/convert.h"

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/permutation.h"
#include "base/status.h"
#include "readers/example_builder.h"
#include "readers/image_source.h"
#include "readers/record_writer.h"

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;

// A new hidden folder that goes away with its contents.
class WorkFolder {
 public:
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Make(const fs::path& parent) {
    std::string path = (parent / ".millrace-convert-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "mkdtemp", path);
    return std::unique_ptr<WorkFolder>(new WorkFolder(path));
  }
  ~WorkFolder() {
    std::error_code ignored;  // what cannot be removed stays; the conversion's own status matters
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  explicit WorkFolder(fs::path path) : path_(std::move(path)) {}
  const fs::path path_;
};

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
    NameShards();
    if (!options_.overwrite) MILLRACE_RETURN_IF_ERROR(CheckAbsent());
    MILLRACE_ASSIGN_OR_RETURN(source_, OpenSource(options_));
    total_ = source_->num_images();
    if (static_cast<uint64_t>(options_.num_shards) > total_) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_shards: ", options_.num_shards, " shards for ", total_, " images"));
    }
    if (options_.shuffle_seed.has_value()) order_.emplace(total_, *options_.shuffle_seed);
    report_.class_names = source_->class_names();
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<WorkFolder> folder,
                              WorkFolder::Make(fs::path(report_.files[0]).parent_path()));
    for (size_t shard = 0; shard < report_.files.size(); ++shard) {
      MILLRACE_RETURN_IF_ERROR(WriteShard(shard, folder->path() / Basename(shard)));
    }
    MILLRACE_RETURN_IF_ERROR(MoveShards(folder->path()));
    return std::move(report_);
  }

 private:
  fs::path Basename(size_t shard) const { return fs::path(report_.files[shard]).filename(); }

  void NameShards() {
    for (int shard = 0; shard < options_.num_shards; ++shard) {
      report_.files.push_back(absl::StrFormat("%s-%05d-of-%05d.tfrecord", options_.output_prefix,
                                              shard, options_.num_shards));
    }
  }

  absl::Status CheckAbsent() const {
    for (const std::string& file : report_.files) {
      std::error_code error;
      const bool exists = fs::exists(fs::symlink_status(file, error));
      if (exists) return absl::AlreadyExistsError(absl::StrCat(file, ": exists already"));
    }
    return absl::OkStatus();
  }

  absl::Status WriteShard(size_t shard, const fs::path& path) {
    MILLRACE_ASSIGN_OR_RETURN(
        const std::unique_ptr<TfRecordWriter> writer,
        TfRecordWriter::Open(path.string(), {.compression = options_.compression,
                                             .compression_level = options_.compression_level}));
    const uint64_t num_shards = report_.files.size();
    const uint64_t end = (shard + 1) * total_ / num_shards;
    for (uint64_t i = shard * total_ / num_shards; i < end; ++i) {
      const uint64_t index = order_.has_value() ? (*order_)(i) : i;
      MILLRACE_ASSIGN_OR_RETURN(const SourceImage image, source_->Read(index));
      MILLRACE_RETURN_IF_ERROR(writer->Write(MakeExample(image)));
      ++report_.num_images;
      ++report_.images_per_label[image.label];
      if (progress_) {
        progress_(static_cast<int64_t>(report_.num_images), static_cast<int64_t>(total_));
      }
    }
    MILLRACE_RETURN_IF_ERROR(writer->Close());
    std::error_code error;
    report_.file_bytes += fs::file_size(path, error);
    return error ? ErrnoStatus(error.value(), "stat", path.string()) : absl::OkStatus();
  }

  absl::Status MoveShards(const fs::path& folder) {
    for (size_t shard = 0; shard < report_.files.size(); ++shard) {
      std::error_code error;
      fs::rename(folder / Basename(shard), report_.files[shard], error);
      if (!error) continue;
      for (size_t moved = 0; moved < shard; ++moved) {
        std::error_code ignored;  // the rename's error is the one to tell
        fs::remove(report_.files[moved], ignored);
      }
      return ErrnoStatus(error.value(), "rename", report_.files[shard]);
    }
    return absl::OkStatus();
  }

  const ConvertOptions& options_;
  const ConvertProgress& progress_;
  std::unique_ptr<ImageSource> source_;
  uint64_t total_ = 0;
  std::optional<Permutation> order_;
  ConvertReport report_;
};

}  // namespace

absl::Status ConvertOptions::Validate() const {
  if (images.empty()) return absl::InvalidArgumentError("images: no path given");
  if (output_prefix.empty()) return absl::InvalidArgumentError("output_prefix: no path given");
  if (num_shards < 1 || num_shards > 99999) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_shards: ", num_shards, " is not in 1 to 99999"));
  }
  if (input == ConvertInput::kIdx && label.has_value()) {
    return absl::InvalidArgumentError("label: IDX files hold their own labels");
  }
  if (input == ConvertInput::kImages && !labels.empty()) {
    return absl::InvalidArgumentError("labels: only IDX files have a file of labels");
  }
  if (max_memory_bytes < 0) return absl::InvalidArgumentError("max_memory_bytes: is negative");
  if (compression == Compression::kAuto) {
    return absl::InvalidArgumentError("compression: must be none, gzip or zlib");
  }
  if (compression_level < 1 || compression_level > 9) {
    return absl::InvalidArgumentError(
        absl::StrCat("compression_level: ", compression_level, " is not in 1 to 9"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ConvertReport> Convert(const ConvertOptions& options,
                                      const ConvertProgress& progress) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  return Conversion(options, progress).Run();
}

}  // namespace millrace::readers
