#include "pipeline/plan/limits.h"
#include "pipeline/stages/convert.h"
#include "pipeline/stages/fields.h"
#include "pipeline/stages/row.h"

// Maps that decode bytes.

namespace millrace::pipeline {
namespace {

using proto::Stage;

constexpr uint64_t kMaxScans = 1 << 16;
constexpr uint64_t kMaxDecodeBytes = uint64_t{1} << 40;

void FillRaw(proto::DecodeRaw* decode) {
  Default(decode->mutable_field(), "record");
  Default(decode->mutable_output(), decode->field().c_str());
  if (decode->dtype() == proto::DATA_TYPE_UNSPECIFIED) decode->set_dtype(proto::UINT8);
}

void FillImage(proto::DecodeImage* decode) {
  Default(decode->mutable_field(), "image/encoded");
  Default(decode->mutable_output(), "image");
  if (decode->channels() == 0) decode->set_channels(3);
  if (decode->max_pixels() == 0) decode->set_max_pixels(uint64_t{1} << 28);
  const augment::DecodeImageOptions defaults;
  if (decode->max_scans() == 0) decode->set_max_scans(static_cast<uint32_t>(defaults.max_scans));
  if (decode->max_memory_bytes() == 0) {
    decode->set_max_memory_bytes(static_cast<uint64_t>(defaults.max_memory_bytes));
  }
  if (!decode->has_fancy_upsampling()) decode->set_fancy_upsampling(defaults.fancy_upsampling);
}

void FillPeek(proto::PeekImageShape* peek) {
  Default(peek->mutable_field(), "image/encoded");
  Default(peek->mutable_output(), "image/shape");
}

absl::Status CheckRaw(const OptionsChecker& check, const proto::DecodeRaw& decode) {
  MILLRACE_RETURN_IF_ERROR(check.IsNumeric("dtype", decode.dtype()));
  const std::string why = WhyNotShape(decode.shape());
  return why.empty() ? absl::OkStatus() : check.ErrorBelow({{"decode_raw"}, {"shape"}}, why);
}

absl::Status CheckImage(const OptionsChecker& check, const proto::DecodeImage& decode) {
  if (decode.channels() != 1 && decode.channels() != 3) {
    return check.Error("channels", absl::StrCat(" is ", decode.channels(), " but must be 1 or 3"));
  }
  if (decode.verify_full() && decode.allow_truncated()) {
    return check.Error("verify_full", " and allow_truncated do not go together");
  }
  MILLRACE_RETURN_IF_ERROR(check.InRange("max_scans", decode.max_scans(), 1, kMaxScans));
  MILLRACE_RETURN_IF_ERROR(
      check.InRange("max_memory_bytes", decode.max_memory_bytes(), 1, kMaxDecodeBytes));
  return check.InRange("max_pixels", decode.max_pixels(), 1, kMaxElements);
}

absl::Status CheckPeek(const OptionsChecker& check, const proto::PeekImageShape& peek) {
  if (peek.output() != peek.field()) return absl::OkStatus();
  return check.Error("output",
                     absl::StrCat(" is \"", peek.output(), "\", the encoded field, which stays"));
}

OpOptions ToRaw(const proto::DecodeRaw& decode) {
  return readers::DecodeRawOptions{decode.field(), decode.output(), ToDType(decode.dtype()),
                                   ToShape(decode.shape())};
}

OpOptions ToImage(const proto::DecodeImage& decode) {
  augment::DecodeImageOptions options;
  options.field = decode.field();
  options.output = decode.output();
  options.channels = static_cast<int>(decode.channels());
  options.max_pixels = static_cast<int64_t>(decode.max_pixels());
  options.apply_exif_orientation = decode.apply_exif_orientation();
  options.max_scans = static_cast<int>(decode.max_scans());
  options.max_memory_bytes = static_cast<int64_t>(decode.max_memory_bytes());
  options.verify_full = decode.verify_full();
  options.allow_truncated = decode.allow_truncated();
  options.fast_dct = decode.fast_dct();
  options.fancy_upsampling = decode.fancy_upsampling();
  options.dct_downscale = decode.dct_downscale();
  return options;
}

OpOptions ToPeek(const proto::PeekImageShape& peek) {
  return augment::PeekImageShapeOptions{peek.field(), peek.output(), peek.apply_exif_orientation()};
}

OpFields FieldsOfPeek(const augment::PeekImageShapeOptions& peek) {
  return {{peek.field}, {peek.output}, {}, false};
}

constexpr OpRow kRawOp = {
    .index = IndexOf<readers::DecodeRawOptions>(),
    .fields = FieldsBy<readers::DecodeRawOptions, FieldsOfDecode<readers::DecodeRawOptions>>,
    .make = MakeBy<readers::DecodeRawOptions, readers::MakeDecodeRaw>};
constexpr OpRow kImageOp = {
    .index = IndexOf<augment::DecodeImageOptions>(),
    .fields = FieldsBy<augment::DecodeImageOptions, FieldsOfDecode<augment::DecodeImageOptions>>,
    .make = MakeBy<augment::DecodeImageOptions, augment::MakeDecodeImage>};
constexpr OpRow kPeekOp = {
    .index = IndexOf<augment::PeekImageShapeOptions>(),
    .fields = FieldsBy<augment::PeekImageShapeOptions, FieldsOfPeek>,
    .make = MakeBy<augment::PeekImageShapeOptions, augment::MakePeekImageShape>};

constexpr StageRow kDecodeRows[] = {
    {.op_case = Stage::kDecodeRaw,
     .name = "decode_raw",
     .doc = "Bytes as numbers, little endian.",
     .options = {{"field", "bytes"},
                 {"output", "", "the field"},
                 {"dtype", ""},
                 {"shape", "the first extent may be -1: as many as the bytes hold", "a scalar"}},
     .fill = Fill<&Stage::mutable_decode_raw, FillRaw>,
     .check = Check<&Stage::decode_raw, CheckRaw>,
     .read = Read<&Stage::decode_raw, ToRaw>,
     .op = &kRawOp,
     .parses = true},
    {.op_case = Stage::kDecodeImage,
     .name = "decode_image",
     .doc = "JPEG and PNG files as images, uint8 [height, width, channels].",
     .options =
         {{"field", "bytes"},
          {"output", ""},
          {"channels", "3 or 1"},
          {"max_pixels", "a larger image is an error (S-IMAGE-4)", "2^28"},
          {"apply_exif_orientation", "turn the image upright"},
          {"max_scans", "a JPEG of more scans is an error"},
          {"max_memory_bytes", "an image that takes more to decode is an error", "2^31"},
          {"verify_full", "damage anywhere in the file is an error",
           "false: where it is needed (S-ROUND-2)"},
          {"allow_truncated", "take damaged images (S-IMAGE-3)"},
          {"fast_dct", "the less accurate, faster inverse transform of JPEGs (S-IMAGE-5)"},
          {"fancy_upsampling", "smooth the chroma of JPEGs (S-IMAGE-5)"},
          {"dct_downscale",
           "decode JPEGs at 1/2, 1/4 or 1/8 where the `random_resized_crop` or `resize` behind it "
           "makes them so small (S-IMAGE-5)"}},
     .fill = Fill<&Stage::mutable_decode_image, FillImage>,
     .check = Check<&Stage::decode_image, CheckImage>,
     .read = Read<&Stage::decode_image, ToImage>,
     .op = &kImageOp},
    {.op_case = Stage::kPeekImageShape,
     .name = "peek_image_shape",
     .doc = "The shape of an image that stays encoded: int64[3], height, width, channels as "
            "stored.",
     .options = {{"field", "bytes, which stay"},
                 {"output", ""},
                 {"apply_exif_orientation", "the shape of the upright image"}},
     .fill = Fill<&Stage::mutable_peek_image_shape, FillPeek>,
     .check = Check<&Stage::peek_image_shape, CheckPeek>,
     .read = Read<&Stage::peek_image_shape, ToPeek>,
     .op = &kPeekOp},
};

}  // namespace

constinit const StageFamily kDecodeStages = {"decode", "Decoding", kDecodeRows};

}  // namespace millrace::pipeline
