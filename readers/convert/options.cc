#include "readers/convert/options.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "readers/convert.h"
#include "readers/convert/input.h"
#include "readers/convert/output.h"
#include "readers/write/shard_set.h"

// Which conversions there are, and what is wrong with the others.

namespace millrace::readers {
namespace {

using internal::HoldsImages;

template <typename... Text>
absl::Status Bad(const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

std::string NameOf(ConvertFormat format) { return std::string(ConvertFormatName(format)); }

// Records without names for what is in them.
bool IsNameless(ConvertFormat format) {
  return format == ConvertFormat::kText || format == ConvertFormat::kFixedLength;
}
bool HoldsAnyBytes(ConvertFormat format) {
  return format == ConvertFormat::kTfRecord || IsNameless(format);
}
bool IsText(ConvertFormat format) {
  return format == ConvertFormat::kCsv || format == ConvertFormat::kJsonLines;
}
bool HoldsLists(ConvertFormat format) {
  return format == ConvertFormat::kTfRecord || format == ConvertFormat::kJsonLines;
}

absl::Status CheckFiles(const ConvertOptions& options) {
  const std::string from = NameOf(options.from);
  if (options.from != ConvertFormat::kImages) {
    if (!options.classes.empty()) return Bad("classes: only folders of images have these");
    if (options.strict) return Bad("strict: only folders of images have files that are left out");
  }
  if (!HoldsImages(options.from)) {
    if (options.files.empty()) return Bad("files: none given");
    if (!options.images.empty()) return Bad("images: only idx and images have these, not ", from);
    if (!options.labels.empty()) return Bad("labels: only IDX files have a file of labels");
    if (options.label.has_value()) return Bad("label: only images have one, not ", from);
    return absl::OkStatus();
  }
  if (options.images.empty()) return Bad("images: no path given");
  if (!options.files.empty()) return Bad("files: ", from, " has one path, images");
  if (options.from == ConvertFormat::kIdx && options.label.has_value()) {
    return Bad("label: IDX files hold their own labels");
  }
  if (options.from == ConvertFormat::kImages && !options.labels.empty()) {
    return Bad("labels: only IDX files have a file of labels");
  }
  return absl::OkStatus();
}

absl::Status CheckContainer(const ConvertOptions& options) {
  const ContainerOptions& container = options.container;
  if (options.from == ConvertFormat::kFixedLength && container.record_bytes == 0) {
    return Bad("record_bytes: needed to read fixed_length");
  }
  const std::string from = NameOf(options.from);
  const bool is_csv = options.from == ConvertFormat::kCsv;
  if (container.has_header && !is_csv) return Bad("header: only csv has one, not ", from);
  if (container.delimiter != ',' && !is_csv) return Bad("delimiter: only csv has one, not ", from);
  for (const auto& [name, bytes] : {std::pair("record_bytes", container.record_bytes),
                                    std::pair("header_bytes", container.header_bytes),
                                    std::pair("footer_bytes", container.footer_bytes)}) {
    if (bytes == 0 || options.from == ConvertFormat::kFixedLength) continue;
    return Bad(name, ": only of fixed_length that is read, not of ", from);
  }
  if (options.input_compression != Compression::kAuto && HoldsImages(options.from)) {
    return Bad("input_compression: ", from, " is read by what its first bytes say");
  }
  const char delimiter = container.delimiter;
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r') {
    return Bad("delimiter: a quote or a line end");
  }
  return absl::OkStatus();
}

absl::Status CheckSchema(const ConvertOptions& options) {
  const ConvertFormat from = options.from;
  if (options.allow_nan && from != ConvertFormat::kJsonLines) {
    return Bad("allow_nan: of jsonl that is read, not of ", NameOf(from));
  }
  const bool reads = IsText(from) || from == ConvertFormat::kTar;
  if (IsText(from) && options.schema.empty()) {
    return Bad("schema: needed to read ", NameOf(from),
               ", whose text does not say what is a number: NAME:DTYPE,...");
  }
  if (!options.schema.empty() && !reads && !IsText(options.to)) {
    return Bad("schema: neither ", NameOf(from), " nor ", NameOf(options.to), " has columns");
  }
  if (!options.schema.empty() && IsNameless(from)) {
    return Bad("schema: a record of ", NameOf(from), " is one feature of bytes, `feature`");
  }
  std::set<std::string> names;
  for (const ConvertFeature& feature : options.schema) {
    if (!names.insert(feature.name).second) {
      return Bad("schema: '", feature.name, "' is there twice");
    }
    if (!feature.is_list) continue;
    const ConvertFormat holds_none = reads && !HoldsLists(from) ? from : options.to;
    if (HoldsLists(holds_none)) continue;
    return Bad("schema: '", feature.name, "': ", NameOf(holds_none),
               " holds no lists; jsonl and tfrecord do");
  }
  return absl::OkStatus();
}

absl::Status CheckFeatures(const ConvertOptions& options) {
  if (!options.feature.empty() && !IsNameless(options.from) && !IsNameless(options.to)) {
    return Bad("feature: neither ", NameOf(options.from), " nor ", NameOf(options.to),
               " is text or fixed_length");
  }
  if (!options.image_feature.empty() && !internal::LooksAtImages(options)) {
    return Bad("image_feature: no image is encoded anew or checked");
  }
  std::set<std::string> names;
  for (const auto& [name, new_name] : options.features) {
    if (name.empty() || new_name.empty()) return Bad("features: an empty name");
    if (!names.insert(new_name).second) return Bad("features: '", new_name, "' is there twice");
  }
  if (!internal::HasSamples(options) || !options.feature.empty()) return absl::OkStatus();
  if (!IsNameless(options.from) && !IsNameless(options.to)) return absl::OkStatus();
  const std::string side = NameOf(IsNameless(options.from) ? options.from : options.to);
  const std::string pair = absl::StrCat(NameOf(options.from), " to ", NameOf(options.to));
  return Bad(pair, ": a record of ", side,
             " has no names for what is in it; feature: the name of the one that it is",
             options.from == ConvertFormat::kText ? " (csv and jsonl read lines as samples)" : "");
}

absl::Status CheckSuffix(const ConvertOptions& options) {
  if (options.suffix.empty()) return absl::OkStatus();
  const auto extensions = internal::ShardExtensions(options.to);
  if (extensions.empty()) return Bad("suffix: shards of ", NameOf(options.to), " are folders");
  std::vector<std::string> allowed;
  for (const std::string_view extension : extensions) {
    allowed.emplace_back(extension);
    if (options.compression == Compression::kNone) continue;
    allowed.push_back(
        absl::StrCat(ToAbsl(extension), ToAbsl(CompressionEnding(options.compression))));
  }
  if (std::ranges::find(allowed, options.suffix) != allowed.end()) return absl::OkStatus();
  return Bad("suffix: '", options.suffix, "' does not tell ", NameOf(options.to),
             " of compression ", ToAbsl(CompressionName(options.compression)),
             "; these do: ", absl::StrJoin(allowed, ", "));
}

absl::Status CheckImageCheck(const ConvertOptions& options) {
  if (!options.check_images.has_value()) return absl::OkStatus();
  if (options.from == ConvertFormat::kIdx) {
    return Bad("check_images: IDX files hold pixels, in which nothing can be wrong");
  }
  if (!internal::HasSamples(options)) {
    return Bad(
        "check_images: records are copied as bytes; name their features to have them read as "
        "samples");
  }
  if (*options.check_images == ConvertCheck::kDecode && options.codec == nullptr) {
    return Bad("codec: needed to decode images");
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const ConvertOptions& options) {
  const Compression compression = options.compression;
  if (options.to == ConvertFormat::kImages && compression != Compression::kNone) {
    return Bad("compression: images are files of their own, which are compressed already");
  }
  if (options.to == ConvertFormat::kIdx && compression != Compression::kNone &&
      compression != Compression::kGzip) {
    return Bad("compression: idx is read plain or with gzip");
  }
  if (options.to == ConvertFormat::kIdx && options.codec == nullptr) {
    return Bad("codec: idx holds pixels, and nothing decodes images to them");
  }
  return CheckShardOutput(options.output_prefix, options.num_shards, compression,
                          options.compression_level);
}

}  // namespace

bool internal::HasSamples(const ConvertOptions& options) {
  return !HoldsAnyBytes(options.from) || !HoldsAnyBytes(options.to) || !options.feature.empty() ||
         !options.features.empty() || Recodes(options);
}

bool internal::Recodes(const ConvertOptions& options) {
  return options.codec != nullptr && !options.codec->recoding().empty();
}

bool internal::LooksAtImages(const ConvertOptions& options) {
  return Recodes(options) || options.check_images.has_value();
}

absl::Status internal::CheckGoesOn(const ConvertOptions& options) {
  return millrace::CheckGoesOn(options.cancels, "the conversion was cancelled");
}

std::string_view ConvertFormatName(ConvertFormat format) {
  switch (format) {
    case ConvertFormat::kTfRecord:
      return "tfrecord";
    case ConvertFormat::kText:
      return "text";
    case ConvertFormat::kFixedLength:
      return "fixed_length";
    case ConvertFormat::kCsv:
      return "csv";
    case ConvertFormat::kJsonLines:
      return "jsonl";
    case ConvertFormat::kTar:
      return "tar";
    case ConvertFormat::kIdx:
      return "idx";
    case ConvertFormat::kImages:
      break;
  }
  return "images";
}

absl::Status ConvertOptions::Validate() const {
  MILLRACE_RETURN_IF_ERROR(CheckFiles(*this));
  MILLRACE_RETURN_IF_ERROR(CheckContainer(*this));
  MILLRACE_RETURN_IF_ERROR(CheckSchema(*this));
  MILLRACE_RETURN_IF_ERROR(CheckFeatures(*this));
  MILLRACE_RETURN_IF_ERROR(CheckImageCheck(*this));
  MILLRACE_RETURN_IF_ERROR(CheckSuffix(*this));
  if (max_memory_bytes < 0) return Bad("max_memory_bytes: is negative");
  if (threads < 1) return Bad("threads: ", threads, " is not 1 or more");
  return CheckOutput(*this);
}

}  // namespace millrace::readers
