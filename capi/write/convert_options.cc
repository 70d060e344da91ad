#include "capi/write/convert_options.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/image_recoder_words.h"
#include "base/host.h"
#include "base/local_path.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "readers/convert_words.h"
#include "readers/expand_files.h"
#include "readers/image_source.h"

namespace millrace::capi {
namespace {

using readers::ConvertOptions;

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

template <typename T>
std::optional<T> ValueAt(const T* value) {
  return value == nullptr ? std::nullopt : std::optional<T>(*value);
}
template <typename T>
std::optional<T> UnlessZero(T value) {
  return value == 0 ? std::nullopt : std::optional<T>(value);
}

absl::Status TakeFiles(const mr_convert_options& taken, ConvertOptions& options) {
  std::vector<std::string> patterns;
  MILLRACE_RETURN_IF_ERROR(CheckGiven("mr_convert_options",
                                      {{"files", taken.files != nullptr || taken.num_files == 0}}));
  for (size_t i = 0; i < taken.num_files; ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckGiven("mr_convert_options", {{"a name of files", taken.files[i] != nullptr}}));
    patterns.emplace_back(taken.files[i]);
  }
  if (!patterns.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(options.files, readers::ExpandFiles(patterns, options.cancels));
  }
  MILLRACE_ASSIGN_OR_RETURN(options.images, LocalPath(TextOf(taken.images)));
  MILLRACE_ASSIGN_OR_RETURN(options.labels, LocalPath(TextOf(taken.labels)));
  options.label = ValueAt(taken.label);
  if (taken.classes != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(options.classes, readers::ReadClassNames(taken.classes));
  }
  options.strict = taken.strict != 0;
  return absl::OkStatus();
}

absl::Status TakeFormats(const mr_convert_options& taken, ConvertOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(options.from, readers::ParseConvertFormat("from", taken.from));
  if (taken.to != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(options.to, readers::ParseConvertFormat("to", taken.to));
  }
  if (taken.input_compression != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(
        options.input_compression,
        readers::ParseCompression("input_compression", taken.input_compression));
  }
  if (taken.compression != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(options.compression,
                              readers::ParseCompression("compression", taken.compression));
  }
  if (taken.delimiter != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(options.container.delimiter,
                              readers::ParseDelimiter("delimiter", taken.delimiter));
  }
  options.container.record_bytes = taken.record_bytes;
  options.container.header_bytes = taken.header_bytes;
  options.container.footer_bytes = taken.footer_bytes;
  options.container.has_header = taken.has_header != 0;
  return absl::OkStatus();
}

absl::Status TakeFeatures(const mr_convert_options& taken, ConvertOptions& options) {
  if (taken.schema != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(options.schema, readers::ParseConvertSchema(taken.schema));
  }
  if (taken.features != nullptr) options.features = readers::ParseConvertFeatures(taken.features);
  options.allow_nan = taken.allow_nan != 0;
  options.feature = TextOf(taken.feature);
  options.image_feature = TextOf(taken.image_feature);
  return absl::OkStatus();
}

absl::Status TakeImages(const mr_convert_options& taken, ConvertOptions& options) {
  augment::ImageRecoderWords words;
  words.max_resolution = UnlessZero(taken.max_resolution);
  words.min_resolution = UnlessZero(taken.min_resolution);
  if (taken.jpeg_quality < 0) return absl::InvalidArgumentError("jpeg_quality: is negative");
  words.jpeg_quality = UnlessZero<uint64_t>(static_cast<uint64_t>(taken.jpeg_quality));
  words.upright = taken.upright != 0;
  words.image_encoding = TextOf(taken.image_encoding);
  words.write_mode = TextOf(taken.write_mode);
  words.smart_threshold = ValueAt(taken.smart_threshold);
  words.compress_probability = ValueAt(taken.compress_probability);
  words.write_seed = ValueAt(taken.write_seed);
  MILLRACE_ASSIGN_OR_RETURN(options.codec, augment::MakeImageRecoder(words));
  if (taken.check_images == nullptr) return absl::OkStatus();
  const std::string_view word = taken.check_images;
  if (word != "header" && word != "decode") {
    return absl::InvalidArgumentError(
        absl::StrCat("check_images: '", taken.check_images, "' is not header or decode"));
  }
  options.check_images =
      word == "decode" ? readers::ConvertCheck::kDecode : readers::ConvertCheck::kHeader;
  return absl::OkStatus();
}

absl::Status TakeDamage(const mr_convert_options& taken, ConvertOptions& options) {
  const std::string word = TextOf(taken.on_damage);
  if (!word.empty() && word != "fail" && word != "skip") {
    return absl::InvalidArgumentError(absl::StrCat("on_damage: '", word, "' is not fail or skip"));
  }
  if (word == "skip") options.on_damage = readers::ConvertDamage::kSkip;
  options.quarantine_file = TextOf(taken.quarantine_file);
  return absl::OkStatus();
}

void TakeCallbacks(const mr_convert_options& taken, ConvertOptions& options) {
  void* const user = taken.user;
  if (taken.warn != nullptr) {
    options.warn = [warn = taken.warn, user](std::string_view text) { Pour(text, warn, user); };
  }
  if (taken.bad_record != nullptr) {
    options.tell_bad = [tell = taken.bad_record, user](const absl::Status& status) {
      mr_error* const error = MakeError(status);
      tell(user, error);
      mr_error_free(error);
    };
  }
  if (taken.index_progress != nullptr) {
    options.index_progress = [call = taken.index_progress, user](int64_t done, int64_t total) {
      call(user, done, total);
    };
  }
}

}  // namespace

absl::StatusOr<ConvertOptions> ConvertOptionsOf(const mr_convert_options& taken, Cancels cancels) {
  MILLRACE_RETURN_IF_ERROR(CheckGiven("mr_convert_options", {{"from", taken.from != nullptr}}));
  ConvertOptions options;
  options.cancels = std::move(cancels);
  MILLRACE_RETURN_IF_ERROR(TakeFormats(taken, options));
  MILLRACE_RETURN_IF_ERROR(TakeFeatures(taken, options));
  MILLRACE_RETURN_IF_ERROR(TakeImages(taken, options));
  MILLRACE_RETURN_IF_ERROR(TakeDamage(taken, options));
  MILLRACE_RETURN_IF_ERROR(TakeFiles(taken, options));
  TakeCallbacks(taken, options);
  options.suffix = TextOf(taken.suffix);
  options.shuffle_seed = ValueAt(taken.shuffle);
  options.overwrite = taken.overwrite != 0;
  if (taken.shards != 0) options.num_shards = taken.shards;
  if (taken.compression_level != 0) options.compression_level = taken.compression_level;
  options.threads = taken.threads != 0 ? taken.threads : ReadCores().usable;
  options.index_folder = TextOf(taken.index_folder);
  return options;
}

}  // namespace millrace::capi
