#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/big_endian.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "readers/convert/output.h"
#include "readers/exif.h"
#include "readers/image/labels.h"
#include "readers/image_header.h"

// Labelled images with TF-slim's names as what they often come from: a folder of a file for each
// image, or a pair of IDX files. Their shards are folders.

namespace millrace::readers::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEncoded = "image/encoded";
constexpr std::string_view kFormat = "image/format";
constexpr std::string_view kLabel = "image/class/label";
constexpr std::string_view kText = "image/class/text";
constexpr std::string_view kFilename = "image/filename";
constexpr std::string_view kHeight = "image/height";
constexpr std::string_view kWidth = "image/width";
constexpr std::array kNames = {kEncoded, kFormat, kLabel, kText, kFilename, kHeight, kWidth};

absl::Status CheckIsOfImage(std::string_view name) {
  if (std::ranges::find(kNames, name) != kNames.end()) return absl::OkStatus();
  return FeatureError(name, "images and labels have no place for it; --features can leave it out");
}

absl::Status CheckOnlyImage(const Sample& sample) {
  for (const SampleFeature& feature : sample) {
    MILLRACE_RETURN_IF_ERROR(CheckIsOfImage(feature.name));
  }
  return absl::OkStatus();
}

// Checks what all samples are declared to have.
absl::Status CheckOnlyImageDeclared(const std::vector<ConvertFeature>& declared) {
  for (const ConvertFeature& feature : declared) {
    if (!feature.is_optional) MILLRACE_RETURN_IF_ERROR(CheckIsOfImage(feature.name));
  }
  return absl::OkStatus();
}

// Null: there is no such feature.
template <typename T>
absl::StatusOr<const T*> OptionalValue(const Sample& sample, std::string_view name,
                                       std::string_view kind) {
  const SampleFeature* const feature = Find(sample, name);
  if (feature == nullptr) return static_cast<const T*>(nullptr);
  const T* const value = OneValue<T>(*feature);
  if (value == nullptr) {
    return FeatureError(name, absl::StrCat("is not one value of ", ToAbsl(kind)));
  }
  return value;
}

template <typename T>
absl::StatusOr<const T*> NeededValue(const Sample& sample, std::string_view name,
                                     std::string_view kind) {
  MILLRACE_ASSIGN_OR_RETURN(const T* const value, OptionalValue<T>(sample, name, kind));
  if (value == nullptr) return FeatureError(name, "the sample has none");
  return value;
}

absl::Status CheckSide(const Sample& sample, std::string_view name, int64_t real) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t* const side,
                            OptionalValue<int64_t>(sample, name, "int64"));
  if (side == nullptr || *side == real) return absl::OkStatus();
  return FeatureError(name, absl::StrCat("is ", *side, ", and the image has ", real));
}

// Features that are derived from an image are not written, so they have to be what would be derived
// again.
absl::StatusOr<ImageHeader> CheckDerived(const Sample& sample, std::string_view encoded) {
  MILLRACE_ASSIGN_OR_RETURN(const ImageHeader header, ReadImageHeader(encoded));
  MILLRACE_ASSIGN_OR_RETURN(const std::string* const format,
                            OptionalValue<std::string>(sample, kFormat, "bytes"));
  if (format != nullptr && *format != header.format) {
    return FeatureError(kFormat,
                        absl::StrCat("is not ", ToAbsl(header.format), ", as the image is"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckSide(sample, kHeight, header.height));
  MILLRACE_RETURN_IF_ERROR(CheckSide(sample, kWidth, header.width));
  return header;
}

// Makes an empty folder, in place of one that a killed process may have left there.
absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) fs::create_directory(path, error);
  return error ? ErrnoStatus(error.value(), "create folder", path) : absl::OkStatus();
}

// Writes all files below `folder` to the disk: one call, not one for each of a million images.
absl::Status SyncFiles(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", folder);
  return ::syncfs(fd.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "syncfs", folder);
}

// Ends a path as files of the format do; one that does already stays as it is.
std::string WithEndingOf(std::string_view format, const std::string& path) {
  const size_t dot = path.rfind('.');
  const bool is_png = absl::EqualsIgnoreCase(path.substr(dot), ".png");
  if (is_png == (format == "png")) return path;
  return path.substr(0, dot) + (is_png ? ".jpg" : ".png");
}

// CLASS/FILE for each image. A reader numbers the classes by their sorted names, so that has to
// give the labels.
class ImagesShard final : public ShardWriter {
 public:
  // `options` must outlive it.
  ImagesShard(std::string folder, const ConvertOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  // Makes a folder for each class: a reader counts those without images too.
  absl::Status AddClasses(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      labels_.emplace(name, static_cast<int64_t>(labels_.size()));
      std::error_code error;
      fs::create_directory(fs::path(folder_) / name, error);
      if (error) return ErrnoStatus(error.value(), "create folder", folder_ + "/" + name);
    }
    return CheckClassesOfShard(options_, labels_);
  }

  absl::Status Write(const EncodedRecord& record) override {
    const std::string class_name = record.path.substr(0, record.path.find('/'));
    const auto [known, is_new] = labels_.emplace(class_name, record.label);
    if (known->second != record.label) {
      return absl::InvalidArgumentError(absl::StrCat("the class '", class_name, "' has the labels ",
                                                     known->second, " and ", record.label));
    }
    const fs::path path = fs::path(folder_) / record.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) return ErrnoStatus(error.value(), "create folder", path.parent_path().string());
    const UniqueFd fd(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!fd.valid() && errno == EEXIST) {
      return absl::InvalidArgumentError(
          absl::StrCat("two images would be the file '", record.path, "'"));
    }
    if (!fd.valid()) return ErrnoStatus(errno, "open", path.string());
    return WriteFully(fd.get(), std::as_bytes(std::span(record.bytes)), path.string(), ::write);
  }

  absl::Status Close() override {
    MILLRACE_RETURN_IF_ERROR(CheckClassesOfShard(options_, labels_));
    return SyncFiles(folder_);
  }

 private:
  const std::string folder_;
  const ConvertOptions& options_;
  std::map<std::string, int64_t> labels_;  // by class
};

class ImagesOutput final : public ConvertOutput {
 public:
  ImagesOutput(const ConvertOptions& options, std::vector<std::string> class_names)
      : options_(options), class_names_(std::move(class_names)) {}

  absl::Status CheckDeclared(const std::vector<ConvertFeature>& declared) const override {
    return CheckOnlyImageDeclared(declared);
  }
  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t number) const override {
    Sample& sample = record.sample;
    MILLRACE_RETURN_IF_ERROR(CheckOnlyImage(sample));
    MILLRACE_ASSIGN_OR_RETURN(const std::string* const encoded,
                              NeededValue<std::string>(sample, kEncoded, "bytes"));
    MILLRACE_ASSIGN_OR_RETURN(const int64_t* const label,
                              NeededValue<int64_t>(sample, kLabel, "int64"));
    MILLRACE_ASSIGN_OR_RETURN(const ImageHeader header, CheckDerived(sample, *encoded));
    MILLRACE_ASSIGN_OR_RETURN(const std::string class_name, ClassOf(sample, *label));
    EncodedRecord file;
    MILLRACE_ASSIGN_OR_RETURN(file.path, PathOf(sample, class_name, header.format, number));
    file.label = *label;
    file.bytes = *encoded;
    return file;
  }

  absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const override {
    MILLRACE_RETURN_IF_ERROR(MakeFolder(path));
    auto shard = std::make_unique<ImagesShard>(path, options_);
    // Without the name of its class an image lies in a folder that is called after its label.
    if (options_.features.empty()) MILLRACE_RETURN_IF_ERROR(shard->AddClasses(class_names_));
    return shard;
  }

 private:
  static absl::StatusOr<std::string> ClassOf(const Sample& sample, int64_t label) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string* const text,
                              OptionalValue<std::string>(sample, kText, "bytes"));
    if (text == nullptr) return absl::StrFormat("%05d", label);
    const bool is_name = text->find_first_of(std::string_view("/\0", 2)) == std::string::npos &&
                         !text->empty() && !text->starts_with('.');
    if (!is_name) return FeatureError(kText, "is no name of a folder");
    return *text;
  }

  // As the image was called, as far as that says what it says now.
  static absl::StatusOr<std::string> PathOf(const Sample& sample, const std::string& class_name,
                                            std::string_view format, uint64_t number) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string* const filename,
                              OptionalValue<std::string>(sample, kFilename, "bytes"));
    if (filename != nullptr && filename->find('\0') == std::string::npos) {
      const std::string folder = class_name + "/";
      std::string path = filename->starts_with(folder)
                             ? *filename
                             : folder + filename->substr(filename->rfind('/') + 1);
      if (IsImagePath(path) && path.find("//") == std::string::npos) {
        return WithEndingOf(format, path);
      }
    }
    return absl::StrFormat("%s/%09d.%s", class_name, number,
                           format == "jpeg" ? "jpg" : std::string(format));
  }

  const ConvertOptions& options_;
  const std::vector<std::string> class_names_;
};

// Its files say in front how many images follow, which is known when the last was written. So both
// are held in memory, as readers of such files hold them.
class IdxShard final : public ShardWriter {
 public:
  // `options` must outlive it.
  IdxShard(std::string folder, const ConvertOptions& options, std::string extents)
      : folder_(std::move(folder)), options_(options), extents_(std::move(extents)) {}

  absl::Status Write(const EncodedRecord& record) override {
    images_ += record.bytes;
    labels_ += static_cast<char>(record.label);
    return absl::OkStatus();
  }
  absl::Status Close() override {
    const std::string count = BigEndianU32(static_cast<uint32_t>(labels_.size()));
    MILLRACE_RETURN_IF_ERROR(
        WriteFile("images-idx3-ubyte", BigEndianU32(0x803) + count + extents_, std::move(images_)));
    return WriteFile("labels-idx1-ubyte", BigEndianU32(0x801) + count, std::move(labels_));
  }

 private:
  absl::Status WriteFile(std::string_view name, const std::string& header, std::string bytes) {
    MILLRACE_ASSIGN_OR_RETURN(
        const auto file, OpenFileShard(absl::StrCat(folder_, "/", ToAbsl(name)), options_, header));
    MILLRACE_RETURN_IF_ERROR(file->Write({.bytes = std::move(bytes)}));
    return file->Close();
  }

  const std::string folder_;
  const ConvertOptions& options_;
  const std::string extents_;  // height and width, as the file says them
  std::string images_;
  std::string labels_;
};

class IdxOutput final : public ConvertOutput {
 public:
  explicit IdxOutput(const ConvertOptions& options) : options_(options) {}

  absl::Status CheckDeclared(const std::vector<ConvertFeature>& declared) const override {
    return CheckOnlyImageDeclared(declared);
  }
  bool needs_first() const override { return true; }
  absl::Status Begin(const std::vector<ConvertFeature>&, const ConvertRecord* first) override {
    if (first == nullptr) return absl::InvalidArgumentError("idx: there is no image to write");
    MILLRACE_ASSIGN_OR_RETURN(const std::string* const encoded,
                              NeededValue<std::string>(first->sample, kEncoded, "bytes"));
    MILLRACE_ASSIGN_OR_RETURN(const ImageHeader header, ReadImageHeader(*encoded));
    height_ = header.height;  // of the upright image, which its pixels are
    width_ = header.width;
    if (SwapsSides(header.orientation)) std::swap(height_, width_);
    return absl::OkStatus();
  }

  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t) const override {
    const Sample& sample = record.sample;
    MILLRACE_RETURN_IF_ERROR(CheckOnlyImage(sample));
    MILLRACE_ASSIGN_OR_RETURN(const std::string* const encoded,
                              NeededValue<std::string>(sample, kEncoded, "bytes"));
    MILLRACE_ASSIGN_OR_RETURN(const int64_t* const label,
                              NeededValue<int64_t>(sample, kLabel, "int64"));
    if (*label < 0 || *label > 255) {
      return FeatureError(kLabel, absl::StrCat("is ", *label, ", and idx holds 0 to 255"));
    }
    MILLRACE_RETURN_IF_ERROR(CheckDerived(sample, *encoded).status());
    MILLRACE_ASSIGN_OR_RETURN(GreyImage image, options_.codec->DecodeGrey(*encoded));
    if (image.height != height_ || image.width != width_) {
      return FeatureError(kEncoded,
                          absl::StrCat("has ", image.height, " x ", image.width,
                                       " pixels, and the first image ", height_, " x ", width_));
    }
    return EncodedRecord{.bytes = std::move(image.pixels), .label = *label};
  }

  absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const override {
    MILLRACE_RETURN_IF_ERROR(MakeFolder(path));
    return std::make_unique<IdxShard>(
        path, options_,
        BigEndianU32(static_cast<uint32_t>(height_)) + BigEndianU32(static_cast<uint32_t>(width_)));
  }

 private:
  const ConvertOptions& options_;
  int64_t height_ = 0;
  int64_t width_ = 0;
};

}  // namespace

std::unique_ptr<ConvertOutput> MakeIdxOutput(const ConvertOptions& options) {
  return std::make_unique<IdxOutput>(options);
}

std::unique_ptr<ConvertOutput> MakeImagesOutput(const ConvertOptions& options,
                                                std::vector<std::string> class_names) {
  return std::make_unique<ImagesOutput>(options, std::move(class_names));
}

absl::Status CheckClassesOfShard(const ConvertOptions& options,
                                 const std::map<std::string, int64_t>& labels) {
  int64_t rank = 0;
  for (const auto& [name, label] : labels) {
    if (label != rank) {
      const std::string_view way_out = options.num_shards == 1 ? ""
                                       : options.shuffle_seed.has_value()
                                           ? "; fewer shards may have all classes in each"
                                           : "; --shuffle SEED, or one shard, brings all classes";
      return absl::InvalidArgumentError(absl::StrCat(
          "images cannot hold these labels: '", name, "' has ", label, ", and as class ", rank,
          " by the sorted names of its shard's folders it would be read as that", ToAbsl(way_out)));
    }
    ++rank;
  }
  return absl::OkStatus();
}

}  // namespace millrace::readers::internal
