// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <cstdio>
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/exif.h"
#include "readers/foreign_kind.h"
#include "readers/image/png.h"
#include "readers/image_header.h"

namespace millrace::readers {
namespace {

// libjpeg leaves by longjmp to where the call began; nothing with a destructor lies between.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
  bool warned = false;
  bool unsupported = false;
};

// An error behind a warning is the warning's: the file was damaged before, and what libjpeg takes
// for an unknown kind may be damage too. A decode stops at the warning.
void JumpOut(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  if (!errors->warned) {
    errors->manager.format_message(info, errors->message.data());
    errors->unsupported = IsUnsupportedJpeg(*reinterpret_cast<j_decompress_ptr>(info));
  }
  std::longjmp(errors->jump, 1);
}

// Keeps the first warning; with nothing behind it that ends the header it counts for nothing.
void KeepWarning(j_common_ptr info, int level) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  if (level >= 0 || errors->warned) return;
  if (IsHarmlessJpegWarning(*reinterpret_cast<j_decompress_ptr>(info))) return;
  errors->manager.format_message(info, errors->message.data());
  errors->warned = true;
}

// False: errors->message says why.
bool ParseJpegHeader(std::string_view bytes, JpegErrors* errors, ImageHeader* header) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&errors->manager);
  errors->manager.error_exit = JumpOut;
  errors->manager.emit_message = KeepWarning;
  if (setjmp(errors->jump) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  *header = {.format = "jpeg",
             .height = info.image_height,
             .width = info.image_width,
             .channels = info.num_components,
             .orientation = ReadOrientation(bytes)};
  jpeg_destroy_decompress(&info);
  return true;
}

absl::StatusOr<ImageHeader> ReadPngHeader(std::string_view bytes) {
  const internal::SpngContext context(spng_ctx_new(0));
  if (context == nullptr) return absl::ResourceExhaustedError("spng: no memory");
  spng_ihdr ihdr{};
  int error = spng_set_png_buffer(context.get(), bytes.data(), bytes.size());
  if (error == 0) error = spng_get_ihdr(context.get(), &ihdr);
  if (error == SPNG_EMEM) return absl::ResourceExhaustedError("PNG: no memory");
  if (error != 0) {
    return absl::DataLossError(absl::StrCat("damaged PNG header: ", spng_strerror(error)));
  }
  return ImageHeader{.format = "png",
                     .height = ihdr.height,
                     .width = ihdr.width,
                     .channels = PngChannels(ihdr.color_type),
                     .orientation = ReadOrientation(bytes)};
}

// By the brands of an ISO base media file (ISO/IEC 14496-12, 4.3); empty for other files.
std::string_view GuessByBrand(std::string_view bytes) {
  if (bytes.size() < 12 || bytes.substr(4, 4) != "ftyp") return {};
  const std::string_view brands = bytes.substr(8);  // the major one, its version, compatible ones
  const std::string_view major = brands.substr(0, 4);
  if (major == "avif" || major == "avis") return "avif";
  if (major.starts_with("hei") || major.starts_with("hev")) return "heic";
  if (major != "mif1" && major != "msf1") return {};
  if (brands.find("avif") != brands.npos) return "avif";
  return brands.find("heic") != brands.npos ? "heic" : "heif";
}

}  // namespace

std::string_view GuessImageFormat(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "png";
  if (bytes.starts_with("\xff\xd8\xff")) return "jpeg";
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) return "gif";
  if (bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP") {
    return "webp";
  }
  // BMP's own magic is two letters, so its header's size must fit too.
  if (bytes.size() >= 18 && bytes.starts_with("BM") && bytes.substr(15, 3) == std::string(3, 0)) {
    return "bmp";
  }
  for (const char* const tiff : {"II*\0", "MM\0*", "II+\0", "MM\0+"}) {
    if (bytes.substr(0, 4) == std::string_view(tiff, 4)) return "tiff";
  }
  const std::string_view box = bytes.substr(0, 12);
  if (box == std::string_view("\0\0\0\x0cJXL \r\n\x87\n", 12)) return "jxl";
  if (box == std::string_view("\0\0\0\x0cjP  \r\n\x87\n", 12)) return "jp2";
  return GuessByBrand(bytes);
}

int PngChannels(uint8_t color_type) {
  switch (color_type) {
    case SPNG_COLOR_TYPE_GRAYSCALE:
      return 1;
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
      return 2;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
      return 4;
    default:
      return 3;
  }
}

bool IsUnsupportedJpeg(const jpeg_decompress_struct& info) {
  switch (info.err->msg_code) {
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
      return true;
    case JERR_EMPTY_IMAGE:
      // A height of 0 says that a DNL marker behind the first scan has it (ITU-T T.81, B.2.2).
      return info.image_height == 0 && info.image_width > 0 && info.num_components > 0;
    default:
      return false;
  }
}

bool IsHarmlessJpegWarning(const jpeg_decompress_struct& info) {
  switch (info.err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    case JWRN_EXTRANEOUS_DATA:
      return info.input_scan_number == 0;  // behind a scan they may be what is left of its codes
    default:
      return false;
  }
}

absl::StatusOr<ImageHeader> ReadImageHeader(std::string_view bytes) {
  const std::string_view format = GuessImageFormat(bytes);
  if (format == "png") return ReadPngHeader(bytes);
  if (format != "jpeg") {
    return absl::InvalidArgumentError(absl::StrCat("neither PNG nor JPEG", ButForeign(bytes)));
  }
  const auto errors = std::make_unique<JpegErrors>();
  ImageHeader header;
  if (!ParseJpegHeader(bytes, errors.get(), &header)) {
    if (errors->manager.msg_code == JERR_OUT_OF_MEMORY) {
      return absl::ResourceExhaustedError("JPEG: no memory");
    }
    if (errors->unsupported) {
      return absl::InvalidArgumentError(absl::StrCat("JPEG: ", errors->message.data()));
    }
    return absl::DataLossError(absl::StrCat("damaged JPEG header: ", errors->message.data()));
  }
  return header;
}

}  // namespace millrace::readers
