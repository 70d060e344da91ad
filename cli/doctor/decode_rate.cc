#include "cli/doctor/decode_rate.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "augment/image_recoder.h"
#include "base/philox.h"
#include "base/status.h"
#include "readers/image_codec.h"
#include "readers/image_header.h"
#include "readers/open_file.h"
#include "readers/png_encoder.h"

namespace millrace::cli::doctor {
namespace {

constexpr int kHeight = 375;
constexpr int kWidth = 500;
constexpr int kChannels = 3;
constexpr uint64_t kLookedAtBytes = uint64_t{4} << 20;  // of a file, for a JPEG
constexpr size_t kLookedAtFiles = 16;
constexpr std::string_view kJpegStart = "\xff\xd8\xff";
constexpr std::string_view kJpegEnd = "\xff\xd9";

// Waves, as of large shapes, and noise, as of texture.
std::vector<uint8_t> MadePixels() {
  std::vector<uint8_t> pixels;
  pixels.reserve(size_t{kHeight} * kWidth * kChannels);
  RandomStream random({.seed = 1});
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const double noise = 60 * (random.NextDouble() - 0.5);
      for (int channel = 0; channel < kChannels; ++channel) {
        const double wave = std::sin(x * 0.05 + channel) + std::cos(y * 0.07 - channel);
        pixels.push_back(static_cast<uint8_t>(std::clamp(128 + 45 * wave + noise, 0.0, 255.0)));
      }
    }
  }
  return pixels;
}

absl::StatusOr<std::shared_ptr<const readers::ImageCodec>> Codec() {
  return augment::MakeImageRecoder({.jpeg_quality = 90, .encoding = augment::ImageEncoding::kJpeg});
}

// The first bytes of a file; empty: it cannot be read.
std::string FrontOf(const std::string& path) {
  const auto file = readers::OpenFile(path);
  if (!file.ok()) return "";
  std::string front(std::min<uint64_t>((*file)->size(), kLookedAtBytes), '\0');
  const auto got = (*file)->ReadAt(0, std::as_writable_bytes(std::span(front)));
  front.resize(got.ok() ? *got : 0);
  return front;
}

// The first JPEG in `front` that decodes. It may lie inside of a record or a tar file.
std::optional<std::string> FirstJpeg(std::string_view front, const readers::ImageCodec& codec) {
  constexpr int kMostStarts = 8;
  constexpr int kMostEnds = 4;  // those of thumbnails inside come first
  for (int starts = 0; starts < kMostStarts; ++starts) {
    front.remove_prefix(std::min(front.find(kJpegStart), front.size()));
    size_t end = 0;
    for (int ends = 0; ends < kMostEnds; ++ends) {
      const size_t mark = front.find(kJpegEnd, end);
      if (mark == std::string_view::npos) break;
      end = mark + kJpegEnd.size();
      if (codec.Check(front.substr(0, end)).ok()) return std::string(front.substr(0, end));
    }
    front.remove_prefix(std::min(kJpegStart.size(), front.size()));
  }
  return std::nullopt;
}

struct Subject {
  std::string jpeg;
  std::string from;
};

absl::StatusOr<Subject> Choose(const std::vector<std::string>& files,
                               const readers::ImageCodec& codec) {
  for (size_t i = 0; i < std::min(files.size(), kLookedAtFiles); ++i) {
    if (auto jpeg = FirstJpeg(FrontOf(files[i]), codec)) return Subject{*std::move(jpeg), files[i]};
  }
  MILLRACE_ASSIGN_OR_RETURN(std::string made, MakeJpeg());
  return Subject{std::move(made), ""};
}

absl::StatusOr<DecodeRate> Measure(const DecodeRateOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const auto codec, Codec());
  MILLRACE_ASSIGN_OR_RETURN(const Subject subject, Choose(options.files, *codec));
  MILLRACE_ASSIGN_OR_RETURN(const readers::ImageHeader header,
                            readers::ReadImageHeader(subject.jpeg));
  MILLRACE_RETURN_IF_ERROR(codec->Check(subject.jpeg));  // warms up
  const auto start = options.now();
  const double cpu_start = options.cpu_seconds();
  int64_t images = 0;
  double passed = 0, used = 0;
  while (used <= 0 || passed < options.seconds) {
    MILLRACE_RETURN_IF_ERROR(codec->Check(subject.jpeg));
    ++images;
    passed = std::chrono::duration<double>(options.now() - start).count();
    used = options.cpu_seconds() - cpu_start;
    if (options.tick) options.tick();
  }
  return DecodeRate{.images_per_second = static_cast<double>(images) / used,
                    .core_share = used / std::max(passed, used),
                    .image_bytes = subject.jpeg.size(),
                    .height = header.height,
                    .width = header.width,
                    .from = subject.from};
}

}  // namespace

double ThreadCpuSeconds() {
  timespec used = {};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

absl::StatusOr<std::string> MakeJpeg() {
  MILLRACE_ASSIGN_OR_RETURN(const std::string png, readers::EncodePng(MadePixels(), kHeight, kWidth,
                                                                      kChannels, {.stored = true}));
  MILLRACE_ASSIGN_OR_RETURN(const auto codec, Codec());
  MILLRACE_ASSIGN_OR_RETURN(auto recoded, codec->Recode(png));
  if (!recoded.has_value()) return absl::InternalError("a PNG stayed as it was");
  return std::move(recoded->encoded);
}

DecodeRate MeasureDecodeRate(const DecodeRateOptions& options) {
  const absl::StatusOr<DecodeRate> rate = Measure(options);
  return rate.ok() ? *rate : DecodeRate{.error = std::string(rate.status().message())};
}

}  // namespace millrace::cli::doctor
