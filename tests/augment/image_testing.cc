// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include "tests/augment/image_testing.h"

#include <gtest/gtest.h>
#include <spng.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/record_error.h"

namespace millrace::augment::testing {

Image MakeImage(int64_t height, int64_t width, int channels, uint32_t seed) {
  std::mt19937 random(seed);
  Image image{height, width, channels, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int64_t wave = (x * (3 + c) + y * (5 - c)) % 200;
        image.pixels.push_back(static_cast<uint8_t>(wave + random() % 50));
      }
    }
  }
  return image;
}

std::string EncodeJpeg(const Image& image, const JpegShape& shape) {
  jpeg_compress_struct cinfo;
  jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&cinfo, &buffer, &size);
  cinfo.image_height = static_cast<JDIMENSION>(image.height);
  cinfo.image_width = static_cast<JDIMENSION>(image.width);
  cinfo.input_components = image.channels;
  cinfo.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : shape.cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&cinfo);
  if (shape.cmyk) jpeg_set_colorspace(&cinfo, JCS_YCCK);
  jpeg_set_quality(&cinfo, shape.quality, TRUE);
  if (image.channels != 1) {
    cinfo.comp_info[0].h_samp_factor = shape.h_samp;
    cinfo.comp_info[0].v_samp_factor = shape.v_samp;
  }
  cinfo.restart_in_rows = shape.restart_rows;
  cinfo.restart_interval = static_cast<unsigned>(shape.restart_mcus);
  cinfo.optimize_coding = shape.optimize ? TRUE : FALSE;
  jpeg_scan_info scans[3] = {};
  for (int i = 0; i < 3; ++i) scans[i] = {1, {i}, 0, 63, 0, 0};
  if (shape.separate_scans) {
    cinfo.scan_info = scans;
    cinfo.num_scans = 3;
  }
  if (shape.progressive) jpeg_simple_progression(&cinfo);
  jpeg_start_compress(&cinfo, TRUE);
  const int64_t stride = image.width * image.channels;
  while (cinfo.next_scanline < cinfo.image_height) {
    auto* row = const_cast<uint8_t*>(image.pixels.data() + cinfo.next_scanline * stride);
    jpeg_write_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_compress(&cinfo);
  std::string encoded(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&cinfo);
  std::free(buffer);
  return encoded;
}

std::string EncodePng(int64_t height, int64_t width, int color_type, int bit_depth,
                      const std::vector<uint8_t>& pixels, bool interlaced) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.height = static_cast<uint32_t>(height);
  header.width = static_cast<uint32_t>(width);
  header.color_type = static_cast<uint8_t>(color_type);
  header.bit_depth = static_cast<uint8_t>(bit_depth);
  header.interlace_method = interlaced ? SPNG_INTERLACE_ADAM7 : SPNG_INTERLACE_NONE;
  EXPECT_EQ(spng_set_ihdr(context, &header), 0);
  if (color_type == SPNG_COLOR_TYPE_INDEXED) {
    spng_plte palette{};
    palette.n_entries = 1u << bit_depth;
    for (uint32_t i = 0; i < palette.n_entries; ++i) {
      palette.entries[i] = {static_cast<uint8_t>(i), static_cast<uint8_t>(255 - i),
                            static_cast<uint8_t>(i / 2), 255};
    }
    EXPECT_EQ(spng_set_plte(context, &palette), 0);
  }
  EXPECT_EQ(
      spng_encode_image(context, pixels.data(), pixels.size(), SPNG_FMT_RAW, SPNG_ENCODE_FINALIZE),
      0);
  size_t size = 0;
  int error = 0;
  void* buffer = spng_get_png_buffer(context, &size, &error);
  EXPECT_EQ(error, 0);
  std::string encoded(static_cast<char*>(buffer), buffer == nullptr ? 0 : size);
  std::free(buffer);
  spng_ctx_free(context);
  return encoded;
}

namespace {

std::string ReadAll(FILE* file) {
  std::string text;
  char chunk[65536];
  for (size_t n; (n = std::fread(chunk, 1, sizeof chunk, file)) > 0;) text.append(chunk, n);
  return text;
}

}  // namespace

std::optional<Image> Djpeg(const std::string& jpeg, int channels, const std::string& options,
                           bool damaged) {
  if (std::system("command -v djpeg > /dev/null") != 0) return std::nullopt;
  const std::string path =
      ::testing::TempDir() + "millrace_djpeg_" + std::to_string(getpid()) + ".jpg";
  std::ofstream(path, std::ios::binary)
      .write(jpeg.data(), static_cast<std::streamsize>(jpeg.size()));
  const std::string command = "djpeg " + options + " -pnm " +
                              (channels == 1 ? "-grayscale " : "-rgb ") + path +
                              (damaged ? " 2>/dev/null" : "");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  const std::string pnm = ReadAll(pipe);
  const int status = pclose(pipe);
  EXPECT_TRUE(status == 0 || damaged) << command;
  std::remove(path.c_str());
  Image image;
  image.channels = channels;
  int width = 0, height = 0, start = 0;
  if (std::sscanf(pnm.c_str(), "P%*d %d %d 255%n", &width, &height, &start) != 2) {
    return std::nullopt;
  }
  image.height = height;
  image.width = width;
  image.pixels.assign(pnm.begin() + start + 1, pnm.end());
  return image;
}

namespace {

std::string BigEndian(uint32_t value, int num_bytes) {
  std::string bytes;
  for (int i = num_bytes - 1; i >= 0; --i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

}  // namespace

std::string PngChunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const uLong crc =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return BigEndian(static_cast<uint32_t>(data.size()), 4) + body +
         BigEndian(static_cast<uint32_t>(crc), 4);
}

std::string WithChunk(const std::string& png, const std::string& chunk) {
  constexpr size_t kBehindHeader = 8 + 25;
  return png.substr(0, kBehindHeader) + chunk + png.substr(kBehindHeader);
}

std::string WithSegment(const std::string& jpeg, uint8_t marker, const std::string& data) {
  return jpeg.substr(0, 2) + "\xFF" + static_cast<char>(marker) +
         BigEndian(static_cast<uint32_t>(data.size() + 2), 2) + data + jpeg.substr(2);
}

std::string WithExif(const std::string& encoded, int orientation, bool big_endian) {
  const auto number = [&](uint32_t value, int num_bytes) {
    std::string bytes = BigEndian(value, num_bytes);
    if (!big_endian) std::reverse(bytes.begin(), bytes.end());
    return bytes;
  };
  // TIFF: a directory at 8, of a resolution unit and an orientation, both SHORT.
  std::string tiff = (big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(2, 2);
  for (const auto& [tag, value] : {std::pair(0x0128, 2), {0x0112, orientation}}) {
    tiff += number(static_cast<uint32_t>(tag), 2) + number(3, 2) + number(1, 4) +
            number(static_cast<uint32_t>(value), 2) + number(0, 2);
  }
  tiff += number(0, 4);
  if (encoded.starts_with("\x89PNG")) return WithChunk(encoded, PngChunk("eXIf", tiff));
  return WithSegment(encoded, 0xE1, std::string("Exif\0\0", 6) + tiff);
}

Image Crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Image crop{height, width, image.channels, {}};
  for (int64_t y = top; y < top + height; ++y) {
    const auto row = image.pixels.begin() + (y * image.width + left) * image.channels;
    crop.pixels.insert(crop.pixels.end(), row, row + width * image.channels);
  }
  return crop;
}

namespace {

std::vector<SampleId> MakeIds(int64_t rows, uint64_t first_record) {
  std::vector<SampleId> ids(rows);
  for (int64_t row = 0; row < rows; ++row) ids[row].record = first_record + row;
  return ids;
}

}  // namespace

TestRun::TestRun(int64_t rows, uint64_t seed, uint64_t first_record)
    : run_(arena_, seed, first_record, MakeIds(rows, first_record)) {}

void TestRun::AddBytes(const std::string& name, const std::vector<std::string>& values) {
  Column& column = run_.Add(name, DType::kBytes);
  for (size_t row = 0; row < values.size(); ++row) {
    column.Set(static_cast<int64_t>(row), values[row].data(),
               Shape{static_cast<int64_t>(values[row].size())});
  }
}

void TestRun::AddValue(const std::string& name, DType dtype, const Shape& shape, const void* data) {
  Column& column = run_.Add(name, dtype);
  for (int64_t row = 0; row < run_.num_rows(); ++row) column.Set(row, data, shape);
}

Image TestRun::ImageAt(const std::string& name, int64_t row) const {
  const ConstTensorView view = run_.Get(name).at(row);
  EXPECT_EQ(view.dtype, DType::kU8);
  const auto pixels = view.as<uint8_t>();
  return {view.shape[0],
          view.shape[1],
          static_cast<int>(view.shape[2]),
          {pixels.begin(), pixels.end()}};
}

Schema ResolveAndApply(Op& op, const Schema& schema, Run& run) {
  absl::StatusOr<Schema> output = op.Resolve(schema);
  EXPECT_TRUE(output.ok()) << output.status();
  if (!output.ok()) return schema;
  op.Apply(run);
  return *output;
}

Schema EncodedSchema() {
  return Schema({{"image/encoded", DType::kBytes, Shape{Shape::kUnknown}}});
}

namespace {

constexpr char kStage[] = "random_resized_crop";

DecodeResult Result(const TestRun& run, Run& rows) {
  if (!rows.ok(0)) return {rows.status(0), {}};
  return {absl::OkStatus(), run.ImageAt("image", 0)};
}

}  // namespace

void ExpectError(const DecodeResult& result, absl::StatusCode code, const std::string& text) {
  ASSERT_EQ(result.status.code(), code) << result.status;
  EXPECT_NE(result.status.message().find(text), std::string::npos) << result.status;
  ASSERT_TRUE(GetRecordError(result.status).has_value());
  EXPECT_EQ(GetRecordError(result.status)->reason, RecordErrorReason::kImage);
}

DecodeResult Decode(const std::string& encoded, const DecodeImageOptions& options) {
  const std::vector<std::string> values = {encoded};
  TestRun run(1);
  run.AddBytes(options.field, values);
  auto op = MakeDecodeImage(options);
  if (!op.ok()) return {op.status(), {}};
  ResolveAndApply(**op, EncodedSchema(), *run);
  return Result(run, *run);
}

DecodeResult DecodeCrop(const std::string& encoded, const DecodeImageOptions& decode,
                        const RandomResizedCropOptions& crop, uint64_t record) {
  const std::vector<std::string> values = {encoded};
  TestRun run(1, 1, record);
  run.AddBytes(decode.field, values);
  auto op = MakeDecodeCrop(decode, crop, kStage);
  if (!op.ok()) return {op.status(), {}};
  ResolveAndApply(**op, EncodedSchema(), *run);
  return Result(run, *run);
}

namespace {

DecodeResult Apply(absl::StatusOr<std::unique_ptr<Op>> first,
                   absl::StatusOr<std::unique_ptr<Op>> second, const std::string& encoded,
                   const std::string& field, uint64_t record) {
  const std::vector<std::string> values = {encoded};
  TestRun run(1, 1, record);
  run.AddBytes(field, values);
  if (!first.ok() || !second.ok()) return {absl::InternalError("bad options"), {}};
  const Schema schema = ResolveAndApply(**first, EncodedSchema(), *run);
  ResolveAndApply(**second, schema, *run);
  return Result(run, *run);
}

}  // namespace

DecodeResult DecodeThenCrop(const std::string& encoded, const DecodeImageOptions& decode,
                            const RandomResizedCropOptions& crop, uint64_t record) {
  return Apply(MakeDecodeImage(decode), MakeRandomResizedCrop(crop, kStage), encoded, decode.field,
               record);
}

DecodeResult DecodeToCropThenCrop(const std::string& encoded, const DecodeImageOptions& decode,
                                  const RandomResizedCropOptions& crop, uint64_t record) {
  return Apply(MakeDecodeImageToCrop(decode, crop, kStage), MakeRandomResizedCrop(crop, kStage),
               encoded, decode.field, record);
}

DecodeResult DecodeToCropThenCrop(const std::string& encoded, const DecodeImageOptions& decode,
                                  const CenterCropOptions& crop, uint64_t record) {
  return Apply(MakeDecodeImageToCrop(decode, crop, kStage), MakeCenterCrop(crop), encoded,
               decode.field, record);
}

}  // namespace millrace::augment::testing
