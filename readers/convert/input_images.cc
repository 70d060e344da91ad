#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/convert/input.h"
#include "readers/image_source.h"
#include "readers/write/shard_set.h"

namespace millrace::readers::internal {
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

struct OpenedImages {
  std::unique_ptr<ImageSource> source;
  bool in_order = false;
};

absl::StatusOr<OpenedImages> OpenSource(const ConvertOptions& options) {
  OpenedImages opened;
  if (options.from == ConvertFormat::kIdx) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string labels, LabelsPath(options));
    MILLRACE_ASSIGN_OR_RETURN(opened.source, OpenIdxImages(options.images, labels));
    return opened;
  }
  std::error_code error;
  const bool is_folder = fs::is_directory(options.images, error);
  if (error) return ErrnoStatus(error.value(), "stat", options.images);
  const ImageLabelOptions labels{options.label, options.classes, options.strict, options.warn,
                                 options.cancels};
  if (is_folder) {
    MILLRACE_ASSIGN_OR_RETURN(opened.source, OpenImageFolder(options.images, labels));
    return opened;
  }
  ImageTarOptions tar;
  tar.labels = labels;
  tar.random_access = options.shuffle_seed.has_value();
  tar.max_memory_bytes = options.max_memory_bytes;
  MILLRACE_ASSIGN_OR_RETURN(opened.source, OpenImageTar(options.images, tar));
  opened.in_order = !tar.random_access;
  return opened;
}

template <typename T>
SampleFeature One(std::string name, T value) {
  return {std::move(name), std::vector<T>{std::move(value)}};
}

ConvertRecord ToRecord(SourceImage image) {
  ConvertRecord record;
  record.label = image.label;
  Sample& sample = record.sample;
  sample.push_back(One("image/encoded", std::move(image.encoded)));
  sample.push_back(One("image/format", std::string(image.format)));
  sample.push_back(One("image/class/label", image.label));
  if (!image.label_text.empty()) {
    sample.push_back(One("image/class/text", std::move(image.label_text)));
  }
  sample.push_back(One("image/filename", std::move(image.filename)));
  sample.push_back(One("image/height", image.height));
  sample.push_back(One("image/width", image.width));
  return record;
}

// An image, or the error of one that is damaged.
struct FetchedImage {
  absl::StatusOr<SourceImage> image;
  RecordError place;
};

// The error of an image with its place.
absl::Status AtImage(absl::Status status, RecordError place) {
  const std::optional<RecordError> known = GetRecordError(status);
  place.reason = known.has_value() ? known->reason : RecordErrorReason::kFeature;
  SetRecordError(status, place);
  return status;
}

class FetchedImages final : public FetchedRecords {
 public:
  FetchedImages(std::vector<FetchedImage> images, absl::Status rest, std::string source)
      : images_(std::move(images)), rest_(std::move(rest)), source_(std::move(source)) {}

  absl::Status ForEach(const TakeRecord& take, const RefuseRecord& refuse) override {
    for (FetchedImage& image : images_) {
      const absl::Status status = Take(std::move(image.image), take);
      if (!status.ok()) MILLRACE_RETURN_IF_ERROR(refuse(AtImage(status, image.place)));
    }
    return rest_;
  }

 private:
  absl::Status Take(absl::StatusOr<SourceImage> image, const TakeRecord& take) const {
    if (!image.ok()) return image.status();
    const std::string name = absl::StrCat(source_, ": ", image->filename);
    return Annotate(take(ToRecord(*std::move(image))), name);
  }

  std::vector<FetchedImage> images_;
  const absl::Status rest_;  // why there are no more
  const std::string source_;
};

class ImageInput final : public ConvertInput {
 public:
  ImageInput(std::string path, OpenedImages opened)
      : path_(std::move(path)), source_(std::move(opened.source)), in_order_(opened.in_order) {}

  uint64_t num_records() const override { return source_->num_images(); }
  uint64_t RecordBytes(uint64_t record) const override {
    return kOverheadBytes + source_->ImageBytes(record);
  }
  std::optional<int64_t> LabelOf(uint64_t record) const override {
    return source_->LabelOf(record);
  }
  bool fetch_in_order() const override { return in_order_; }

  absl::StatusOr<std::unique_ptr<FetchedRecords>> Fetch(
      std::vector<uint64_t> records) const override {
    std::vector<FetchedImage> images;
    absl::Status rest;
    for (const uint64_t record : records) {
      absl::StatusOr<SourceImage> image = source_->Read(record);
      if (!image.ok() && !GetRecordError(image.status()).has_value()) {
        rest = image.status();
        break;
      }
      images.push_back({std::move(image), source_->PlaceOf(record)});
    }
    return std::make_unique<FetchedImages>(std::move(images), std::move(rest), path_);
  }

  std::string Identity() const override {
    return absl::StrCat(AbsolutePath(path_), " ", source_->Fingerprint(), " ",
                        absl::StrJoin(class_names(), "/"));
  }
  std::string Source() const override { return path_; }
  const std::vector<ConvertFeature>& schema() const override { return schema_; }
  const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  uint64_t num_not_read() const override { return source_->num_not_read(); }

 private:
  static constexpr uint64_t kOverheadBytes = 1 << 10;  // of the other features, about

  const std::string path_;
  const std::unique_ptr<ImageSource> source_;  // reads in any order from any thread, or in_order_
  const bool in_order_;
  const std::vector<ConvertFeature> schema_;  // none: samples are what they are
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConvertInput>> OpenImageInput(const ConvertOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(OpenedImages opened, OpenSource(options));
  return std::make_unique<ImageInput>(options.images, std::move(opened));
}

}  // namespace millrace::readers::internal
