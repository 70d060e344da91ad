// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <cstdio>
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "augment/codec/decoder.h"
#include "augment/image/errors.h"
#include "base/status.h"
#include "readers/image_header.h"

// libjpeg-turbo behind a status.
//
// libjpeg reports errors by a callback that must not return. Ours jumps back to Guard(), the one
// setjmp; between the two lie only libjpeg's C frames and the static bodies below, none of which
// holds an object with a destructor. Memory of libjpeg's belongs to cinfo_ and goes with it.
// A warning means that pixels were invented (grey fill, resynchronisation), so it is an error too,
// but for allow_truncated, and but for those that mean nothing of the kind, which verify_full alone
// refuses: some of the header, and that of the missing end mark. libjpeg puts one behind the last
// byte as soon as it reads ahead; if it then lacks bits of a code it warns again. It does not tell
// of a progressive file that ends where another scan should begin: CheckScans.
//
// A region is decoded by skipping the rows above it, cropping the columns to whole iMCUs and
// stopping behind its last row. Smooth chroma upsampling reads one chroma sample to each side and
// duplicates it at what it takes for the image's edge, so a subsampled image is cropped
// kColumnMargin pixels wider than asked; rows need no margin, jpeg_skip_scanlines keeps the
// upsampler's context. decode_region_test holds both to the bit. Images that libjpeg decodes in
// another way are read as a whole: ToRead.

namespace millrace::augment {
namespace {

constexpr int64_t kColumnMargin = 4;
// Each block of the largest component takes a bit of Huffman code, at least.
constexpr uint64_t kMaxPixelsPerByte = 8 * DCTSIZE2;
constexpr int kRowsPerCall = 8;
constexpr std::string_view kPrematureEnd = "Premature end of JPEG file";  // libjpeg's words

struct DecodeErrors {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  jmp_buf jump;
  bool allows_warnings = false;
  bool refuses_harmless = false;
  bool warned = false;  // of damage
  bool ended = false;   // true if the file ends in or behind a scan, without an end mark
  // A progressive file may hold any number of scans over all its pixels, at a few bytes each.
  int max_scans = 0;
  bool too_many_scans = false;
};

DecodeErrors& ErrorsOf(j_common_ptr cinfo) { return *reinterpret_cast<DecodeErrors*>(cinfo->err); }

[[noreturn]] void OnDecodeError(j_common_ptr cinfo) { std::longjmp(ErrorsOf(cinfo).jump, 1); }

void OnMessage(j_common_ptr cinfo, int level) {
  if (level >= 0) return;
  DecodeErrors& errors = ErrorsOf(cinfo);
  const auto& decompress = *reinterpret_cast<j_decompress_ptr>(cinfo);
  if (!errors.refuses_harmless && readers::IsHarmlessJpegWarning(decompress)) return;
  const bool ended = errors.base.msg_code == JWRN_JPEG_EOF && decompress.input_scan_number > 0;
  if (ended && !errors.refuses_harmless && !errors.allows_warnings) {
    errors.ended = true;
    return;
  }
  errors.warned = true;
  if (!errors.allows_warnings) OnDecodeError(cinfo);
}

void OnProgress(j_common_ptr common) {
  DecodeErrors& errors = ErrorsOf(common);
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number <= errors.max_scans) return;
  errors.too_many_scans = true;
  OnDecodeError(common);
}

void DropDecodeMessage(j_common_ptr) {}

// RGB of one row of CMYK. Adobe writes its inks inverted: 255 is none.
void ConvertCmyk(const uint8_t* in, int64_t width, int channels, bool inverted, uint8_t* out) {
  const uint8_t flip = inverted ? 0 : 255;
  for (int64_t x = 0; x < width; ++x) {
    const uint32_t black = in[4 * x + 3] ^ flip;
    uint32_t rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = ((in[4 * x + c] ^ flip) * black + 127) / 255;
    if (channels == 1) {
      out[x] = Luma(rgb[0], rgb[1], rgb[2]);
    } else {
      for (int c = 0; c < 3; ++c) out[3 * x + c] = static_cast<uint8_t>(rgb[c]);
    }
  }
}

// The smallest region of an image of 1/`denominator` of the size that holds `region`.
Region Scaled(const Region& region, int64_t denominator) {
  const auto up = [&](int64_t extent) { return (extent + denominator - 1) / denominator; };
  Region scaled{region.top / denominator, region.left / denominator};
  scaled.height = up(region.top + region.height) - scaled.top;
  scaled.width = up(region.left + region.width) - scaled.left;
  return scaled;
}

class JpegDecoder final : public ImageDecoder {
 public:
  explicit JpegDecoder(const DecodeImageOptions& options) : options_(options) {
    errors_.allows_warnings = options.allow_truncated;
    errors_.refuses_harmless = options.verify_full;
    errors_.max_scans = options.max_scans;
    cinfo_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = OnDecodeError;
    errors_.base.emit_message = OnMessage;
    errors_.base.output_message = DropDecodeMessage;
    progress_.progress_monitor = OnProgress;
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&cinfo_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  absl::Status Open(std::string_view encoded) {
    encoded_ = encoded;
    MILLRACE_RETURN_IF_ERROR(Guard(&ReadHeader));
    if (options_.verify_full) MILLRACE_RETURN_IF_ERROR(CheckAdobe());
    info_ = {.format = "jpeg",
             .height = cinfo_.image_height,
             .width = cinfo_.image_width,
             .channels = cinfo_.num_components};
    return absl::OkStatus();
  }

  absl::Status CheckHeader() const override {
    if (cinfo_.arith_code) return Refusal("arithmetic coding is not supported");
    const uint64_t pixels = static_cast<uint64_t>(info_.height * info_.width);
    if (pixels / kMaxPixelsPerByte > encoded_.size()) {
      return Damage(absl::StrCat(encoded_.size(), " bytes cannot hold ", info_.height, " x ",
                                 info_.width, " pixels"));
    }
    if (CoefficientBytes() <= options_.max_memory_bytes) return absl::OkStatus();
    return Refusal(absl::StrCat("its coefficients take ", CoefficientBytes(),
                                " bytes, more than max_memory_bytes ", options_.max_memory_bytes));
  }

  absl::Status DecodeAll(int channels, RunArena& arena, uint8_t* out) override {
    MILLRACE_RETURN_IF_ERROR(Start({0, 0, info_.height, info_.width}, 1, channels));
    MILLRACE_RETURN_IF_ERROR(ReadRows(arena, out));
    return options_.verify_full ? Guard(&Finish) : absl::OkStatus();
  }

  absl::StatusOr<Pixels> DecodeRegion(const Region& region, int channels,
                                      RunArena& arena) override {
    return Decode(region, 1, channels, arena);
  }

  absl::StatusOr<Pixels> DecodeScaled(const Region& region, int denominator, int channels,
                                      RunArena& arena, Region* scaled) override {
    *scaled = Scaled(region, denominator);
    return Decode(*scaled, denominator, channels, arena);
  }

 private:
  // Runs `body` so that libjpeg's errors end it. It must not own anything.
  absl::Status Guard(void (*body)(JpegDecoder*)) {
    if (setjmp(errors_.jump) == 0) {
      body(this);
      return absl::OkStatus();
    }
    return Error();
  }

  absl::Status Error() {
    char text[JMSG_LENGTH_MAX];
    cinfo_.err->format_message(reinterpret_cast<j_common_ptr>(&cinfo_), text);
    if (errors_.base.msg_code == JERR_OUT_OF_MEMORY) {
      return absl::ResourceExhaustedError(absl::StrCat("JPEG: ", text));
    }
    if (errors_.too_many_scans) {
      return Refusal(absl::StrCat("more than max_scans ", options_.max_scans));
    }
    if (errors_.ended) return Damage(kPrematureEnd);  // of which this is a consequence
    return readers::IsUnsupportedJpeg(cinfo_) ? Refusal(text) : Damage(text);
  }

  static absl::Status Refusal(std::string_view text) {
    return RowError(RecordErrorReason::kImage, absl::StrCat("JPEG: ", ToAbsl(text)));
  }
  static absl::Status Damage(std::string_view text) {
    return ImageDamage(absl::StrCat("JPEG: ", ToAbsl(text)));
  }

  static void ReadHeader(JpegDecoder* self) {
    jpeg_create_decompress(&self->cinfo_);
    self->cinfo_.progress = &self->progress_;
    self->cinfo_.mem->max_memory_to_use = 0;  // CheckHeader counts; not $JPEGMEM either
    jpeg_mem_src(&self->cinfo_, reinterpret_cast<const unsigned char*>(self->encoded_.data()),
                 self->encoded_.size());
    jpeg_read_header(&self->cinfo_, TRUE);
    self->has_multiple_scans_ = jpeg_has_multiple_scans(&self->cinfo_);
  }

  static void StartDecompress(JpegDecoder* self) { jpeg_start_decompress(&self->cinfo_); }
  static void Finish(JpegDecoder* self) { jpeg_finish_decompress(&self->cinfo_); }

  static void CropAndSkip(JpegDecoder* self) {
    jpeg_crop_scanline(&self->cinfo_, &self->crop_left_, &self->crop_width_);
    if (self->skip_ > 0) jpeg_skip_scanlines(&self->cinfo_, self->skip_);
  }

  static void ReadSome(JpegDecoder* self) {
    jpeg_decompress_struct& cinfo = self->cinfo_;
    while (self->rows_read_ < self->num_rows_) {
      self->rows_read_ += jpeg_read_scanlines(&cinfo, self->rows_ + self->rows_read_,
                                              self->num_rows_ - self->rows_read_);
    }
  }

  // The bytes of coefficients that libjpeg keeps of all scans, as it must where there is more than
  // one. Under any limit it would keep a row of MCUs in memory, and the rest in a file.
  int64_t CoefficientBytes() const {
    if (!has_multiple_scans_) return 0;
    const auto up = [](int64_t blocks, int factor) {
      return (blocks + factor - 1) / factor * factor;
    };
    int64_t blocks = 0;
    for (int i = 0; i < cinfo_.num_components; ++i) {
      const jpeg_component_info& component = cinfo_.comp_info[i];
      blocks += up(component.width_in_blocks, component.h_samp_factor) *
                up(component.height_in_blocks, component.v_samp_factor);
    }
    return blocks * static_cast<int64_t>(sizeof(JBLOCK));
  }

  // `region` of the image at 1/`denominator` of its size.
  absl::StatusOr<Pixels> Decode(const Region& region, int denominator, int channels,
                                RunArena& arena) {
    const Region all = Scaled({0, 0, info_.height, info_.width}, denominator);
    auto pixels =
        DecodeFrom(options_.verify_full ? all : region, region, denominator, channels, arena);
    if (!pixels.ok() || !errors_.warned || read_ == all) return pixels;
    // Pixels that libjpeg invents for a region differ from those it invents for the whole image.
    jpeg_abort_decompress(&cinfo_);  // its memory, of which the next takes as much
    JpegDecoder again(options_);
    MILLRACE_RETURN_IF_ERROR(again.Open(encoded_));
    return again.DecodeFrom(all, region, denominator, channels, arena);
  }

  // The same by way of the pixels of `read`, which holds it.
  absl::StatusOr<Pixels> DecodeFrom(const Region& read, const Region& region, int denominator,
                                    int channels, RunArena& arena) {
    MILLRACE_RETURN_IF_ERROR(Start(read, denominator, channels));
    const int64_t stride = int64_t{crop_width_} * channels;
    auto* out = reinterpret_cast<uint8_t*>(arena.Allocate(read_.height * stride + kPixelsSlack));
    MILLRACE_RETURN_IF_ERROR(ReadRows(arena, out));
    if (options_.verify_full) MILLRACE_RETURN_IF_ERROR(Guard(&Finish));
    return Pixels{out + (region.top - read_.top) * stride + (region.left - crop_left_) * channels,
                  stride};
  }

  // Starts the decoder on the columns that `region` needs, with its first row next; read_ is then
  // `region`, or what of the image must be read for it.
  absl::Status Start(const Region& region, int denominator, int channels) {
    MILLRACE_RETURN_IF_ERROR(CheckHeader());
    channels_ = channels;
    const J_COLOR_SPACE space = cinfo_.jpeg_color_space;
    cmyk_ = space == JCS_CMYK || space == JCS_YCCK;
    cinfo_.out_color_space = cmyk_ ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    cinfo_.dct_method = options_.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
    cinfo_.do_fancy_upsampling = options_.fancy_upsampling ? TRUE : FALSE;
    cinfo_.scale_num = 1;
    cinfo_.scale_denom = static_cast<unsigned>(denominator);
    MILLRACE_RETURN_IF_ERROR(Guard(&StartDecompress));
    if (!options_.allow_truncated) MILLRACE_RETURN_IF_ERROR(CheckScans());
    read_ = ToRead(region, denominator);
    const int64_t margin = cinfo_.max_h_samp_factor > 1 ? kColumnMargin : 0;
    const int64_t left = std::max<int64_t>(read_.left - margin, 0);
    const int64_t right = std::min<int64_t>(read_.left + read_.width + margin, cinfo_.output_width);
    crop_left_ = static_cast<JDIMENSION>(left);
    crop_width_ = static_cast<JDIMENSION>(right - left);
    skip_ = static_cast<JDIMENSION>(read_.top);
    return Guard(&CropAndSkip);
  }

  // `region`, or all rows or columns where libjpeg's pixels of a part are not those of the whole.
  Region ToRead(const Region& region, int denominator) const {
    if (LacksScans()) return {0, 0, cinfo_.output_height, cinfo_.output_width};
    const int sampling = std::max(cinfo_.max_h_samp_factor, cinfo_.max_v_samp_factor);
    if (denominator == 1 || sampling <= 2) return region;
    return {region.top, 0, region.height, cinfo_.output_width};
  }

  // Whether no scan has brought some coefficients of a progressive file in full. libjpeg may guess
  // them from the blocks around, which at the edge of a part are others.
  bool LacksScans() const {
    if (!cinfo_.progressive_mode || cinfo_.coef_bits == nullptr) return false;
    for (int i = 0; i < cinfo_.num_components; ++i) {
      const auto& bits = cinfo_.coef_bits[i];
      if (std::any_of(bits, bits + DCTSIZE2, [](int bit) { return bit != 0; })) return true;
    }
    return false;
  }

  // An Adobe marker whose transform is none for so many components. Where a JFIF marker stands too,
  // libjpeg does not look at it.
  absl::Status CheckAdobe() const {
    const int transform = cinfo_.Adobe_transform;
    const bool is_known = transform == 0 || (transform == 1 && cinfo_.num_components == 3) ||
                          (transform == 2 && cinfo_.num_components == 4);
    if (!cinfo_.saw_Adobe_marker || cinfo_.num_components < 3 || is_known) return absl::OkStatus();
    return Damage(absl::StrCat("Unknown Adobe color transform code ", transform));
  }

  // libjpeg takes a component that no scan has brought for grey, without a word. A file without an
  // end mark was cut, between scans too.
  absl::Status CheckScans() const {
    if (errors_.ended && LacksScans()) return Damage(kPrematureEnd);
    for (int i = 0; i < cinfo_.num_components; ++i) {
      const bool seen = cinfo_.comp_info[i].quant_table != nullptr &&
                        (cinfo_.coef_bits == nullptr || cinfo_.coef_bits[i][0] >= 0);
      if (!seen) return Damage(absl::StrCat("no scan holds component ", i));
    }
    return absl::OkStatus();
  }

  // Reads the rows of read_ to `out`, crop_width_ pixels each.
  absl::Status ReadRows(RunArena& arena, uint8_t* out) {
    const int64_t stride = int64_t{crop_width_} * channels_;
    const int64_t raw_stride = int64_t{crop_width_} * 4;
    uint8_t* raw =
        cmyk_ ? reinterpret_cast<uint8_t*>(arena.Allocate(kRowsPerCall * raw_stride)) : nullptr;
    for (int64_t row = 0; row < read_.height; row += num_rows_) {
      rows_read_ = 0;
      num_rows_ = static_cast<JDIMENSION>(std::min<int64_t>(kRowsPerCall, read_.height - row));
      for (JDIMENSION i = 0; i < num_rows_; ++i) {
        rows_[i] = cmyk_ ? raw + i * raw_stride : out + (row + i) * stride;
      }
      MILLRACE_RETURN_IF_ERROR(Guard(&ReadSome));
      for (JDIMENSION i = 0; cmyk_ && i < num_rows_; ++i) {
        ConvertCmyk(rows_[i], crop_width_, channels_, cinfo_.saw_Adobe_marker,
                    out + (row + i) * stride);
      }
    }
    return absl::OkStatus();
  }

  const DecodeImageOptions options_;
  std::string_view encoded_;
  jpeg_decompress_struct cinfo_{};
  DecodeErrors errors_{};
  jpeg_progress_mgr progress_{};
  bool has_multiple_scans_ = false;
  // The request, kept here because nothing may live in a guarded body.
  int channels_ = 3;
  bool cmyk_ = false;
  Region read_;
  JDIMENSION crop_left_ = 0;
  JDIMENSION crop_width_ = 0;
  JDIMENSION skip_ = 0;
  JDIMENSION num_rows_ = 0;
  JDIMENSION rows_read_ = 0;
  JSAMPROW rows_[kRowsPerCall] = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenLibjpeg(std::string_view encoded,
                                                          const DecodeImageOptions& options) {
  auto decoder = std::make_unique<JpegDecoder>(options);
  MILLRACE_RETURN_IF_ERROR(decoder->Open(encoded));
  return decoder;
}

}  // namespace millrace::augment
