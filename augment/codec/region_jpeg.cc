#include <utility>

#include "augment/codec/decoder.h"
#include "augment/jpeg/region_decoder.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

// A JPEG whose header RegionDecoder has read.
class BaselineJpeg final : public ImageDecoder {
 public:
  BaselineJpeg(std::string_view encoded, const DecodeImageOptions& options,
               std::unique_ptr<jpeg::RegionDecoder> decoder)
      : encoded_(encoded), options_(options), decoder_(std::move(decoder)) {
    const jpeg::Frame& frame = decoder_->frame();
    info_ = {.format = "jpeg",
             .height = frame.height,
             .width = frame.width,
             .channels = frame.num_components};
  }

  absl::Status DecodeAll(int channels, RunArena& arena, uint8_t* out) override {
    const Region all{0, 0, info_.height, info_.width};
    if (decoder_->Decode(all, channels, out, info_.width * channels)) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const auto libjpeg, OpenLibjpeg(encoded_, options_));
    return libjpeg->DecodeAll(channels, arena, out);
  }

  absl::StatusOr<Pixels> DecodeRegion(const Region& region, int channels,
                                      RunArena& arena) override {
    const int64_t stride = region.width * channels;
    auto* out = reinterpret_cast<uint8_t*>(
        arena.Allocate(static_cast<size_t>(region.height * stride + kPixelsSlack)));
    if (decoder_->Decode(region, channels, out, stride)) return Pixels{out, stride};
    MILLRACE_ASSIGN_OR_RETURN(const auto libjpeg, OpenLibjpeg(encoded_, options_));
    return libjpeg->DecodeRegion(region, channels, arena);
  }

  absl::StatusOr<Pixels> DecodeScaled(const Region& region, int denominator, int channels,
                                      RunArena& arena, Region* scaled) override {
    MILLRACE_ASSIGN_OR_RETURN(const auto libjpeg, OpenLibjpeg(encoded_, options_));
    return libjpeg->DecodeScaled(region, denominator, channels, arena, scaled);
  }

 private:
  const std::string_view encoded_;
  const DecodeImageOptions options_;
  const std::unique_ptr<jpeg::RegionDecoder> decoder_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJpeg(std::string_view encoded,
                                                       const DecodeImageOptions& options) {
  if (!MayUseRegionDecoder(options)) return OpenLibjpeg(encoded, options);
  auto decoder = std::make_unique<jpeg::RegionDecoder>();
  if (!decoder->Open(encoded)) return OpenLibjpeg(encoded, options);
  return std::make_unique<BaselineJpeg>(encoded, options, std::move(decoder));
}

}  // namespace millrace::augment
