// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <cstdio>
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "augment/codec/encoder.h"
#include "readers/exif.h"

// As in jpeg_decoder.cc, libjpeg's errors jump to the one setjmp, over C frames and a static body
// that owns nothing. The bytes go to a string of ours: libjpeg's own destination in memory has
// freed the buffer that it hands out when it runs out of memory for the next one.

namespace millrace::augment {
namespace {

struct EncodeErrors {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  jmp_buf jump;
};

[[noreturn]] void OnEncodeError(j_common_ptr cinfo) {
  std::longjmp(reinterpret_cast<EncodeErrors*>(cinfo->err)->jump, 1);
}

void DropEncodeMessage(j_common_ptr) {}

// Takes bytes in pieces of one size.
struct Destination {
  jpeg_destination_mgr base;  // first: libjpeg hands back a pointer to it
  std::string out;
  std::array<JOCTET, size_t{1} << 16> piece;
};

Destination* DestinationOf(j_compress_ptr cinfo) {
  return reinterpret_cast<Destination*>(cinfo->dest);
}

void NextPiece(j_compress_ptr cinfo) {
  Destination* const self = DestinationOf(cinfo);
  self->base.next_output_byte = self->piece.data();
  self->base.free_in_buffer = self->piece.size();
}

// False: there is no memory. An exception must not go through libjpeg's frames, nor a jump leave
// its handler.
bool Append(Destination& to, size_t num_bytes) {
  try {
    to.out.append(reinterpret_cast<const char*>(to.piece.data()), num_bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

boolean TakePiece(j_compress_ptr cinfo) {
  Destination* const self = DestinationOf(cinfo);
  if (!Append(*self, self->piece.size())) ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
  NextPiece(cinfo);
  return TRUE;
}

void TakeLastPiece(j_compress_ptr cinfo) {
  Destination* const self = DestinationOf(cinfo);
  const size_t num_bytes = self->piece.size() - self->base.free_in_buffer;
  if (!Append(*self, num_bytes)) ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
}

class JpegEncoder {
 public:
  JpegEncoder(const uint8_t* pixels, int64_t height, int64_t width, int channels, int quality,
              std::string exif)
      : pixels_(pixels), stride_(width * channels), quality_(quality), exif_(std::move(exif)) {
    cinfo_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = OnEncodeError;
    errors_.base.output_message = DropEncodeMessage;
    height_ = static_cast<JDIMENSION>(height);
    width_ = static_cast<JDIMENSION>(width);
    channels_ = channels;
  }
  ~JpegEncoder() { jpeg_destroy_compress(&cinfo_); }
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  absl::StatusOr<std::string> Encode() {
    if (setjmp(errors_.jump) == 0) {
      Run(this);
      return std::move(destination_.out);
    }
    char text[JMSG_LENGTH_MAX];
    cinfo_.err->format_message(reinterpret_cast<j_common_ptr>(&cinfo_), text);
    if (errors_.base.msg_code == JERR_OUT_OF_MEMORY) {
      return absl::ResourceExhaustedError(absl::StrCat("JPEG: ", text));
    }
    return absl::InternalError(absl::StrCat("JPEG encoding failed: ", text));
  }

 private:
  static void Run(JpegEncoder* self) {
    jpeg_compress_struct& cinfo = self->cinfo_;
    jpeg_create_compress(&cinfo);
    jpeg_destination_mgr& destination = self->destination_.base;
    destination.init_destination = NextPiece;
    destination.empty_output_buffer = TakePiece;
    destination.term_destination = TakeLastPiece;
    cinfo.dest = &destination;
    cinfo.image_height = self->height_;
    cinfo.image_width = self->width_;
    cinfo.input_components = self->channels_;
    cinfo.in_color_space = self->channels_ == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&cinfo);
    jpeg_set_quality(&cinfo, self->quality_, TRUE);
    cinfo.dct_method = JDCT_ISLOW;
    jpeg_start_compress(&cinfo, TRUE);
    if (!self->exif_.empty()) {
      jpeg_write_marker(&cinfo, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(self->exif_.data()),
                        static_cast<unsigned>(self->exif_.size()));
    }
    while (cinfo.next_scanline < cinfo.image_height) {
      // libjpeg does not write to rows.
      auto* row = const_cast<JSAMPLE*>(self->pixels_ + cinfo.next_scanline * self->stride_);
      jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
  }

  const uint8_t* const pixels_;
  const int64_t stride_;
  const int quality_;
  const std::string exif_;  // of an APP1 segment; empty: none
  JDIMENSION height_ = 0;
  JDIMENSION width_ = 0;
  int channels_ = 0;
  jpeg_compress_struct cinfo_{};
  EncodeErrors errors_{};
  Destination destination_{};
};

}  // namespace

absl::StatusOr<std::string> EncodeJpeg(const uint8_t* pixels, int64_t height, int64_t width,
                                       int channels, int quality, int orientation) {
  std::string exif;
  if (orientation != 1) {
    exif = std::string(readers::kExifHeader) + readers::MakeExif(orientation);
  }
  return JpegEncoder(pixels, height, width, channels, quality, std::move(exif)).Encode();
}

}  // namespace millrace::augment
