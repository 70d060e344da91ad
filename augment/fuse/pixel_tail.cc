#include "augment/fuse/pixel_tail.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "augment/color/normalize.h"
#include "augment/field/convert.h"
#include "augment/image/region.h"
#include "augment/resize/bilinear_rows.h"
#include "augment/rows/copy.h"
#include "base/status.h"

// A flip needs no pass: rows are asked for from the last one up, and a bilinear resize takes its
// columns from right to left. A normalize of colours is done while they are in the registers of
// that resize. All else goes from one buffer of a row to another, which the first cache holds, and
// the last step writes where the image belongs. The other resizes are not made of rows that could
// be asked for in any order: their whole output, which is small, is made first and is in the second
// cache when its rows are taken from it.

namespace millrace::augment {
namespace {

size_t RowBytes(int64_t width, int64_t channels, size_t element) {
  return static_cast<size_t>(width * channels) * element;
}

template <typename T>
void SplitRow(const void* in, int64_t pixels, int64_t channels, int64_t plane, std::byte* out) {
  const auto* const from = static_cast<const T*>(in);
  auto* const to = reinterpret_cast<T*>(out);
  if constexpr (sizeof(T) <= kMostMoved) {
    if (channels == 3) return SplitRow3(from, pixels, plane, sizeof(T), to);
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < pixels; ++i) to[c * plane + i] = from[i * channels + c];
  }
}

// Whether rows of the resized image can be had one by one (BilinearRows).
bool ResizesByRow(const PixelSource& source) {
  const ResizeTarget& target = *source.resized;
  return target.method == ResizeMethod::kBilinear && !target.antialias &&
         (target.dtype == source.pixels.dtype || target.dtype == DType::kF32);
}

}  // namespace

// Brings the rows of one image through the steps.
class PixelTail::Writer {
 public:
  Writer(const PixelTail& tail, const PixelSource& source, Flips flips, RunArena& arena)
      : tail_(tail),
        source_(source),
        flips_(flips),
        pixels_(source.pixels),
        height_(source.height()),
        width_(source.width()) {
    if (height_ == 0 || width_ == 0) return;
    size_t most = RowBytes(width_, pixels_.channels, sizeof(float));
    for (const RowStep& step : tail.row_steps_) {
      most = std::max(most, RowBytes(width_, step.channels, step.element));
    }
    for (std::byte*& buffer : buffers_) {
      buffer = arena.Allocate(most + static_cast<size_t>(kRowSlack) * sizeof(float));
    }
    if (!source.resized) return;
    rows_.emplace(
        BilinearRows::Extents{pixels_.height, pixels_.width, height_, width_, pixels_.channels},
        flips.horizontal, arena);
  }

  void WriteAll(std::byte* out) {
    if (height_ == 0 || width_ == 0) return;
    const size_t element = SizeOf(tail_.dtype_);
    const size_t row_bytes = RowBytes(width_, tail_.channels_, element);
    for (int64_t y = 0; y < height_; ++y) {
      const int64_t from = flips_.vertical ? height_ - 1 - y : y;
      if (tail_.planes_) {
        Split(Finish(from, nullptr), out + RowBytes(width_, y, element), element);
        continue;
      }
      std::byte* const slot = out + static_cast<size_t>(y) * row_bytes;
      const void* const row = Finish(from, slot);
      if (row != slot) StreamRow(row, row_bytes, slot);
    }
    EndStreaming();
  }

 private:
  // The row of the source, and how many steps are done with it.
  struct Begun {
    const void* row;
    size_t steps;
  };

  std::byte* NextBuffer() {
    turn_ = !turn_;
    return buffers_[turn_ ? 1 : 0];
  }

  // Bytes that no step follows go to `slot`, if there is one.
  Begun Begin(int64_t y, std::byte* slot) {
    if (!source_.resized) return {TakeRow(y), 0};
    if (pixels_.dtype == DType::kF32) return ResizeRow<float>(y);
    const Begun begun = ResizeRow<uint8_t>(y);
    if (begun.steps > 0 || source_.dtype() == DType::kF32) return begun;
    const bool last = tail_.row_steps_.empty() && slot != nullptr;
    std::byte* const bytes = last ? slot : NextBuffer();
    RoundToBytes(static_cast<const float*>(begun.row), rows_->row_floats(),
                 reinterpret_cast<uint8_t*>(bytes));
    return {bytes, 0};
  }

  template <typename T>
  Begun ResizeRow(int64_t y) {
    auto* const line = reinterpret_cast<float*>(NextBuffer());
    PixelScaling scaling;
    if (tail_.first_scales_) {
      scaling = tail_.scaling_;
      scaling.round = source_.dtype() == DType::kU8;
    }
    rows_->Row(static_cast<const T*>(pixels_.data), pixels_.stride, y, scaling, line);
    return {line, tail_.first_scales_ ? size_t{1} : 0};
  }

  const void* TakeRow(int64_t y) {
    const size_t element = SizeOf(pixels_.dtype);
    const auto* const row = static_cast<const std::byte*>(pixels_.data) +
                            static_cast<size_t>(y * pixels_.stride) * element;
    if (!flips_.horizontal) return row;
    std::byte* const mirrored = NextBuffer();
    MirrorRow(row, width_, static_cast<size_t>(pixels_.channels) * element, mirrored);
    return mirrored;
  }

  // Row `y` behind all steps: at `slot`, if the last step could write there, or in a buffer.
  const void* Finish(int64_t y, std::byte* slot) {
    Begun begun = Begin(y, slot);
    for (; begun.steps < tail_.row_steps_.size(); ++begun.steps) {
      const bool last = begun.steps + 1 == tail_.row_steps_.size();
      std::byte* const to = last && slot != nullptr ? slot : NextBuffer();
      tail_.row_steps_[begun.steps].apply(begun.row, width_, to);
      begun.row = to;
    }
    return begun.row;
  }

  void Split(const void* row, std::byte* out, size_t element) const {
    const int64_t plane = height_ * width_;
    switch (element) {
      case 1:
        return SplitRow<uint8_t>(row, width_, tail_.channels_, plane, out);
      case 2:
        return SplitRow<uint16_t>(row, width_, tail_.channels_, plane, out);
      case 4:
        return SplitRow<float>(row, width_, tail_.channels_, plane, out);
      default:
        return SplitRow<uint64_t>(row, width_, tail_.channels_, plane, out);
    }
  }

  const PixelTail& tail_;
  const PixelSource& source_;
  const Flips flips_;
  const PixelView& pixels_;  // of source_
  const int64_t height_;     // of the output
  const int64_t width_;
  std::optional<BilinearRows> rows_;
  std::byte* buffers_[2] = {};  // take turns
  bool turn_ = false;
};

absl::StatusOr<PixelTail> PixelTail::Make(std::vector<PixelStep> steps) {
  PixelTail tail;
  for (const PixelStep& step : steps) {
    const auto make = [&]() -> absl::StatusOr<std::unique_ptr<Op>> {
      if (const auto* flip = std::get_if<FlipOptions>(&step.options)) {
        return MakeFlip(*flip, step.stage);
      }
      if (const auto* scale = std::get_if<NormalizeOptions>(&step.options)) {
        return MakeNormalize(*scale);
      }
      if (const auto* cast = std::get_if<CastOptions>(&step.options)) return MakeCast(*cast);
      if (const auto* pad = std::get_if<PadChannelsOptions>(&step.options)) {
        return MakePadChannels(*pad);
      }
      return MakeTranspose(std::get<TransposeOptions>(step.options));
    };
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, make());
    tail.ops_.push_back(std::move(op));
    if (const auto* flip = std::get_if<FlipOptions>(&step.options)) {
      tail.flips_.push_back({HashName(step.stage), flip->probability, flip->vertical});
    }
  }
  tail.steps_ = std::move(steps);
  return tail;
}

absl::StatusOr<Schema> PixelTail::Resolve(Schema schema, const std::string& field) {
  const Field before = *schema.Find(field);
  dtype_ = before.dtype;
  channels_ = before.shape[2];
  row_steps_.clear();
  first_scales_ = planes_ = false;
  if (channels_ == Shape::kUnknown || (dtype_ != DType::kU8 && dtype_ != DType::kF32)) {
    return absl::InternalError("a fused image of other pixels than uint8 or float32");
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(schema, ops_[i]->Resolve(schema));
    std::visit([this](const auto& options) { AddStep(options); }, steps_[i].options);
  }
  return schema;
}

void PixelTail::AddStep(const NormalizeOptions& options) {
  const NormalizeFactors factors(options);
  if (row_steps_.empty() && channels_ == 3) {
    first_scales_ = scaling_.scale = true;
    std::copy_n(factors.scale.begin(), 3, scaling_.factor);
    std::copy_n(factors.offset.begin(), 3, scaling_.offset);
  }
  const auto scale = [factors](const auto* in, int64_t count, void* out) {
    ScaleRow(in, count, factors.scale.data(), factors.offset.data(),
             static_cast<int64_t>(factors.scale.size()), static_cast<float*>(out));
  };
  RowStep step{{}, channels_, sizeof(float)};
  if (dtype_ == DType::kU8) {
    step.apply = [scale, channels = channels_](const void* in, int64_t pixels, void* out) {
      scale(static_cast<const uint8_t*>(in), pixels * channels, out);
    };
  } else {
    step.apply = [scale, channels = channels_](const void* in, int64_t pixels, void* out) {
      scale(static_cast<const float*>(in), pixels * channels, out);
    };
  }
  row_steps_.push_back(std::move(step));
  dtype_ = DType::kF32;
}

void PixelTail::AddStep(const CastOptions& options) {
  const ConvertFunction convert = FindConvert(dtype_, options.dtype);
  const auto apply = [convert, scale = options.scale, channels = channels_](
                         const void* in, int64_t pixels, void* out) {
    convert(in, pixels * channels, scale, out);
  };
  row_steps_.push_back({apply, channels_, SizeOf(options.dtype)});
  dtype_ = options.dtype;
}

void PixelTail::AddStep(const PadChannelsOptions& options) {
  const size_t element = SizeOf(dtype_);
  const size_t pixel = static_cast<size_t>(channels_) * element;
  std::vector<std::byte> rest(static_cast<size_t>(options.channels - channels_) * element);
  for (size_t at = 0; at < rest.size(); at += element) {
    ConvertFloat(options.value, dtype_, &rest[at]);
  }
  const auto apply = [pixel, element, rest](const void* in, int64_t pixels, void* out) {
    AppendChannels(static_cast<const std::byte*>(in), pixels, pixel, element, rest,
                   static_cast<std::byte*>(out));
  };
  row_steps_.push_back({apply, options.channels, element});
  channels_ = options.channels;
}

Shape PixelTail::ShapeOf(int64_t height, int64_t width) const {
  return planes_ ? Shape{channels_, height, width} : Shape{height, width, channels_};
}

PixelTail::Flips PixelTail::DrawFlips(int64_t row, const Run& run) const {
  Flips flips;
  for (const Flip& flip : flips_) {
    RandomStream random = run.Random(row, flip.stage);
    if (!DrawFlip(flip.probability, random)) continue;
    bool& turned = flip.vertical ? flips.vertical : flips.horizontal;
    turned = !turned;
  }
  return flips;
}

void PixelTail::Write(const PixelSource& source, int64_t row, Run& run, void* out) const {
  const ArenaScratch scratch(run.arena());
  const Flips flips = DrawFlips(row, run);
  auto* const to = static_cast<std::byte*>(out);
  if (!source.resized || ResizesByRow(source)) {
    return Writer(*this, source, flips, run.arena()).WriteAll(to);
  }
  const ResizeTarget& target = *source.resized;
  if (steps_.empty()) return ResizeImage(source.pixels, target, out, run.arena());
  const int64_t channels = source.pixels.channels, stride = target.width * channels;
  std::byte* const memory =
      run.arena().Allocate(static_cast<size_t>(target.height * stride) * SizeOf(target.dtype));
  ResizeImage(source.pixels, target, memory, run.arena());
  const PixelSource resized{{memory, target.dtype, stride, target.height, target.width, channels}};
  Writer(*this, resized, flips, run.arena()).WriteAll(to);
}

}  // namespace millrace::augment
