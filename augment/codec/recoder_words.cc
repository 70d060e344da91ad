#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/image_recoder.h"
#include "augment/image_recoder_words.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

absl::Status Bad(std::string_view text) { return absl::InvalidArgumentError(ToAbsl(text)); }

using Meaning = std::pair<std::string_view, ImageEncoding>;
constexpr Meaning kEncodings[] = {{"jpeg", ImageEncoding::kJpeg}, {"raw", ImageEncoding::kRaw}};
constexpr Meaning kWriteModes[] = {{"raw", ImageEncoding::kStored},
                                   {"jpg", ImageEncoding::kJpeg},
                                   {"smart", ImageEncoding::kSmart},
                                   {"proportion", ImageEncoding::kProportion}};

absl::StatusOr<ImageEncoding> Parse(std::string_view option, std::string_view word,
                                    std::span<const Meaning> meanings) {
  const auto found = std::ranges::find(meanings, word, &Meaning::first);
  if (found != meanings.end()) return found->second;
  std::string words;
  for (const Meaning& meaning : meanings) {
    absl::StrAppend(&words, words.empty() ? "" : ", ", ToAbsl(meaning.first));
  }
  return Bad(absl::StrCat(ToAbsl(option), ": '", ToAbsl(word), "' is none of ", words));
}

absl::StatusOr<ImageEncoding> EncodingOf(const ImageRecoderWords& words) {
  if (!words.image_encoding.empty() && !words.write_mode.empty()) {
    return Bad("image_encoding: not with write_mode");
  }
  if (!words.write_mode.empty()) return Parse("write_mode", words.write_mode, kWriteModes);
  if (words.image_encoding.empty()) return ImageEncoding::kSame;
  return Parse("image_encoding", words.image_encoding, kEncodings);
}

absl::Status CheckWriteMode(const ImageRecoderWords& words, ImageEncoding encoding) {
  const bool is_smart = encoding == ImageEncoding::kSmart;
  if (is_smart != words.smart_threshold.has_value()) {
    return Bad(is_smart ? "write_mode: smart needs smart_threshold, the most bytes of raw pixels"
                        : "smart_threshold: of write_mode smart only");
  }
  if (encoding == ImageEncoding::kProportion) return absl::OkStatus();
  if (words.compress_probability.has_value()) {
    return Bad("compress_probability: of write_mode proportion only");
  }
  if (words.write_seed.has_value()) return Bad("write_seed: of write_mode proportion only");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const readers::ImageCodec>> MakeImageRecoder(
    const ImageRecoderWords& words) {
  ImageRecoderOptions options;
  MILLRACE_ASSIGN_OR_RETURN(options.encoding, EncodingOf(words));
  MILLRACE_RETURN_IF_ERROR(CheckWriteMode(words, options.encoding));
  options.max_resolution = words.max_resolution;
  options.min_resolution = words.min_resolution;
  constexpr uint64_t kNoQuality = 101;  // keeps what is too large from being cut to an int
  options.jpeg_quality = static_cast<int>(std::min(
      words.jpeg_quality.value_or(static_cast<uint64_t>(options.jpeg_quality)), kNoQuality));
  options.upright = words.upright;
  options.smart_threshold = words.smart_threshold.value_or(options.smart_threshold);
  options.compress_probability = words.compress_probability.value_or(options.compress_probability);
  options.seed = words.write_seed.value_or(options.seed);
  MILLRACE_ASSIGN_OR_RETURN(auto codec, MakeImageRecoder(options));
  const bool makes_jpeg = !codec->recoding().empty() && options.encoding != ImageEncoding::kRaw &&
                          options.encoding != ImageEncoding::kStored;
  if (words.jpeg_quality.has_value() && !makes_jpeg) {
    return Bad("jpeg_quality: no image is encoded as JPEG anew");
  }
  return codec;
}

}  // namespace millrace::augment
