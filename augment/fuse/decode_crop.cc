#include "augment/decode_crop.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/fuse/decode_crop.h"
#include "augment/image/options.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

// How many times smaller a region may be decoded that is resized to height x width.
int DctDenominator(const Region& region, int64_t height, int64_t width) {
  for (const int denominator : {8, 4, 2}) {
    if (region.height >= height * denominator && region.width >= width * denominator) {
      return denominator;
    }
  }
  return 1;
}

// Memory of the arena for the few images that are being decoded at a time: the buffer of an image
// that is done is taken for the next one, while the caches have it.
class PixelBuffers {
 public:
  explicit PixelBuffers(RunArena& arena) : arena_(arena) {}

  // `bytes`, and kPixelsSlack behind them that may be read.
  std::span<uint8_t> Take(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes + kPixelsSlack);
    const auto fits = std::ranges::find_if(
        idle_, [&](const std::span<uint8_t>& buffer) { return buffer.size() >= size; });
    if (fits == idle_.end()) {
      return {reinterpret_cast<uint8_t*>(arena_.Allocate(size)), size};
    }
    const std::span<uint8_t> buffer = *fits;
    idle_.erase(fits);
    return buffer;
  }
  void GiveBack(std::span<uint8_t> buffer) { idle_.push_back(buffer); }

 private:
  RunArena& arena_;
  std::vector<std::span<uint8_t>> idle_;
};

}  // namespace

// Decodes the rows of one run.
class DecodeCrop::Worker {
 public:
  Worker(const DecodeCrop& op, Run& run, std::vector<Shape>* images)
      : op_(op),
        run_(run),
        images_(images),
        encoded_(run.Take(op.decode_.field)),
        buffers_(run.arena()),
        pending_(static_cast<size_t>(run.num_rows())),
        pool_(std::make_unique<jpeg::TrackPool>([this](int64_t row, bool ok) { Done(row, ok); })) {
    column_ = &run.Add(op.decode_.output, op.tail_.dtype());
    if (!op.shape_) return;
    // Of all rows at once: images come out of the pool in any order.
    row_bytes_ = static_cast<size_t>(op.shape_->num_elements()) * SizeOf(op.tail_.dtype());
    first_ = run.AllocateAll(*column_, *op.shape_);
    column_->SetAll(first_, static_cast<int64_t>(row_bytes_), *op.shape_);
  }

  void DecodeAll() {
    for (int64_t row = 0; row < run_.num_rows(); ++row) {
      if (run_.ok(row) && !Submit(row)) Decode(row, false);
    }
    pool_->Flush();
  }

 private:
  // An image in the pool.
  struct Pending {
    Region window;
    std::span<uint8_t> buffer;  // dense pixels of the window
  };

  Shape ShapeOf(const Region& window) const {
    return {window.height, window.width, op_.decode_.channels};
  }

  // False: the pool does not take the image.
  bool Submit(int64_t row) {
    jpeg::RegionDecoder& decoder = pool_->idle();
    if (!OpenForTracks(encoded_.bytes(row), op_.decode_, decoder)) return false;
    const Shape image = Note(row, decoder.frame().height, decoder.frame().width);
    const absl::StatusOr<Region> window = op_.head_.Window(image, row, run_);
    if (!window.ok() || Denominator(*window) > 1) return false;
    const int64_t channels = op_.decode_.channels, stride = window->width * channels;
    const std::span<uint8_t> buffer = buffers_.Take(window->height * stride);
    pending_[static_cast<size_t>(row)] = {*window, buffer};
    const Region visible = Visible(*window, image);
    if (visible != *window) {
      std::memset(buffer.data(), 0, static_cast<size_t>(window->height * stride));
    }
    const int64_t first =
        (visible.top - window->top) * stride + (visible.left - window->left) * channels;
    pool_->Submit(row, visible, op_.decode_.channels, buffer.data() + first, stride);
    return true;
  }

  void Done(int64_t row, bool ok) {
    const auto& [window, buffer] = pending_[static_cast<size_t>(row)];
    if (ok) {
      const int64_t channels = op_.decode_.channels;
      Write(row, window,
            {buffer.data(), DType::kU8, window.width * channels, window.height, window.width,
             channels});
    } else {
      Decode(row, true);
    }
    buffers_.GiveBack(buffer);
  }

  // Without the pool.
  void Decode(int64_t row, bool refused) {
    absl::StatusOr<std::unique_ptr<ImageDecoder>> decoder =
        OpenForDecoding(encoded_.bytes(row), op_.decode_, refused);
    if (!decoder.ok()) return FailEncoded(row, decoder.status());
    const Shape image = Note(row, (*decoder)->info().height, (*decoder)->info().width);
    const absl::StatusOr<Region> window = op_.head_.Window(image, row, run_);
    // An image that is not taken needs no pixels, but a file that has to be whole is an error
    // first.
    if (!window.ok() && !op_.decode_.verify_full) return FailImage(row, window.status());
    const absl::StatusOr<Shape> out =
        window.ok() ? op_.head_.Resized(ShapeOf(*window)) : absl::StatusOr<Shape>(window.status());
    // In front of what is given back.
    void* const memory = out.ok() ? MemoryOf(row, *out) : nullptr;
    const ArenaScratch scratch(run_.arena());
    const absl::StatusOr<PixelView> pixels =
        DecodePixels(**decoder, image, window.ok() ? *window : Region{0, 0, image[0], image[1]});
    if (!pixels.ok()) return FailEncoded(row, pixels.status());
    if (!out.ok()) return FailImage(row, out.status());
    op_.tail_.Write(op_.head_.SourceOf(*pixels, *out), row, run_, memory);
  }

  absl::StatusOr<PixelView> DecodePixels(ImageDecoder& decoder, const Shape& image,
                                         const Region& window) {
    const int channels = op_.decode_.channels;
    const Region visible = Visible(window, image);
    Region decoded = visible;
    const int denominator = Denominator(window);
    MILLRACE_ASSIGN_OR_RETURN(
        const Pixels pixels,
        denominator == 1
            ? decoder.DecodeRegion(visible, channels, run_.arena())
            : decoder.DecodeScaled(visible, denominator, channels, run_.arena(), &decoded));
    const PixelView view{pixels.data,    DType::kU8,    pixels.stride,
                         decoded.height, decoded.width, channels};
    return visible == window ? view : Surround(view, visible, window, run_.arena());
  }

  // `pixels` of the window, or of it at a smaller size.
  void Write(int64_t row, const Region& window, const PixelView& pixels) {
    const absl::StatusOr<Shape> out = op_.head_.Resized(ShapeOf(window));
    if (!out.ok()) return FailImage(row, out.status());
    op_.tail_.Write(op_.head_.SourceOf(pixels, *out), row, run_, MemoryOf(row, *out));
  }

  void* MemoryOf(int64_t row, const Shape& out) {
    if (op_.shape_) return first_ + static_cast<size_t>(row) * row_bytes_;
    return run_.Allocate(*column_, row, op_.tail_.ShapeOf(out[0], out[1]));
  }

  int Denominator(const Region& window) const {
    if (!op_.decode_.dct_downscale || !op_.head_.resizes()) return 1;
    const absl::StatusOr<Shape> out = op_.head_.Resized(ShapeOf(window));
    return out.ok() ? DctDenominator(window, (*out)[0], (*out)[1]) : 1;
  }

  Shape Note(int64_t row, int64_t height, int64_t width) {
    const Shape image{height, width, op_.decode_.channels};
    if (images_ != nullptr) (*images_)[static_cast<size_t>(row)] = image;
    return image;
  }

  void FailEncoded(int64_t row, const absl::Status& status) {
    run_.Fail(row, Annotate(status, op_.decode_.field));
  }
  void FailImage(int64_t row, const absl::Status& status) {
    run_.Fail(row, Annotate(status, op_.decode_.output));
  }

  const DecodeCrop& op_;
  Run& run_;
  std::vector<Shape>* const images_;
  const Column encoded_;
  PixelBuffers buffers_;
  std::vector<Pending> pending_;
  const std::unique_ptr<jpeg::TrackPool> pool_;
  Column* column_ = nullptr;
  std::byte* first_ = nullptr;  // output of row 0, where all have one shape
  size_t row_bytes_ = 0;
};

DecodeCrop::DecodeCrop(DecodeImageOptions decode, PixelHead head, PixelTail tail)
    : decode_(std::move(decode)), head_(std::move(head)), tail_(std::move(tail)) {}

absl::StatusOr<std::unique_ptr<DecodeCrop>> DecodeCrop::Make(DecodeImageOptions decode,
                                                             CropOptions crop,
                                                             std::optional<ResizeOptions> resize,
                                                             const std::string& stage,
                                                             PixelTail tail) {
  MILLRACE_RETURN_IF_ERROR(ValidatePair(decode, crop));
  const bool extents_are_given = std::holds_alternative<RandomCropOptions>(crop) ||
                                 std::holds_alternative<CenterCropOptions>(crop);
  if (decode.dct_downscale && extents_are_given) {
    return absl::InvalidArgumentError(kNeedsResize);
  }
  MILLRACE_ASSIGN_OR_RETURN(PixelHead head,
                            PixelHead::Make(ToFirst(std::move(crop)), std::move(resize), stage));
  return std::unique_ptr<DecodeCrop>(
      new DecodeCrop(std::move(decode), std::move(head), std::move(tail)));
}

absl::StatusOr<Schema> DecodeCrop::ResolveImage(const Schema& input) const {
  return ResolveDecode(input, decode_);
}

absl::StatusOr<Schema> DecodeCrop::Resolve(const Schema& input) {
  MILLRACE_ASSIGN_OR_RETURN(Schema schema, ResolveImage(input));
  MILLRACE_ASSIGN_OR_RETURN(schema, head_.Resolve(std::move(schema)));
  MILLRACE_ASSIGN_OR_RETURN(schema, tail_.Resolve(std::move(schema), decode_.output));
  shape_ = head_.FixedOutput(decode_.channels);
  if (shape_) shape_ = tail_.ShapeOf((*shape_)[0], (*shape_)[1]);
  return schema;
}

void DecodeCrop::ApplyNoting(Run& run, std::vector<Shape>* images) const {
  Worker(*this, run, images).DecodeAll();
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeCrop(DecodeImageOptions decode, CropOptions crop,
                                                   const std::string& stage) {
  return DecodeCrop::Make(std::move(decode), std::move(crop), std::nullopt, stage, PixelTail());
}

absl::Status ValidatePair(const DecodeImageOptions& decode, const CropOptions& crop) {
  MILLRACE_RETURN_IF_ERROR(Validate(decode));
  const std::string& field =
      std::visit([](const auto& o) -> const std::string& { return o.field; }, crop);
  if (field == decode.output) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("crop: field '", field, "' is not decode_image's output '", decode.output, "'"));
}

FirstOptions ToFirst(CropOptions crop) {
  return std::visit([](auto& options) -> FirstOptions { return std::move(options); }, crop);
}

}  // namespace millrace::augment
