#ifndef MILLRACE_TESTS_READERS_IMAGE_FIXTURES_H_
#define MILLRACE_TESTS_READERS_IMAGE_FIXTURES_H_

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <spng.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
// After <cstdio>: libjpeg's header needs FILE.
#include <jpeglib.h>

#include "tests/temp_files.h"

// Small images, IDX files, folders and tars, made by the libraries themselves.

namespace millrace::readers {

inline std::string MakePng(uint32_t height, uint32_t width, uint8_t value = 7) {
  spng_ctx* const context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_ihdr ihdr{};
  ihdr.height = height;
  ihdr.width = width;
  ihdr.bit_depth = 8;
  ihdr.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  const std::vector<uint8_t> pixels(size_t{3} * height * width, value);
  EXPECT_EQ(spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1), 0);
  EXPECT_EQ(spng_set_ihdr(context, &ihdr), 0);
  EXPECT_EQ(
      spng_encode_image(context, pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE),
      0);
  size_t size = 0;
  int error = 0;
  void* const buffer = spng_get_png_buffer(context, &size, &error);
  std::string png(static_cast<const char*>(buffer), size);
  std::free(buffer);
  spng_ctx_free(context);
  return png;
}

// The grey pixels of a PNG.
inline std::vector<uint8_t> DecodeGreyPng(std::string_view png) {
  spng_ctx* const context = spng_ctx_new(0);
  EXPECT_EQ(spng_set_png_buffer(context, png.data(), png.size()), 0);
  size_t size = 0;
  EXPECT_EQ(spng_decoded_image_size(context, SPNG_FMT_G8, &size), 0);
  std::vector<uint8_t> pixels(size);
  EXPECT_EQ(spng_decode_image(context, pixels.data(), size, SPNG_FMT_G8, 0), 0);
  spng_ctx_free(context);
  return pixels;
}

inline std::string MakeJpeg(uint32_t height, uint32_t width, uint8_t value = 99) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = height;
  info.image_width = width;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> row(size_t{3} * width, value);
  unsigned char* rows = row.data();
  while (info.next_scanline < height) jpeg_write_scanlines(&info, &rows, 1);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string jpeg(reinterpret_cast<char*>(buffer), size);
  std::free(buffer);
  return jpeg;
}

inline std::string BigEndian32(uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
  return out;
}

// Pixel i of all is i modulo 251.
inline std::string IdxImages(uint32_t count, uint32_t height, uint32_t width) {
  std::string out =
      BigEndian32(0x803) + BigEndian32(count) + BigEndian32(height) + BigEndian32(width);
  for (uint32_t i = 0; i < count * height * width; ++i) out.push_back(static_cast<char>(i % 251));
  return out;
}

// Label i is i modulo 10.
inline std::string IdxLabels(uint32_t count) {
  std::string out = BigEndian32(0x801) + BigEndian32(count);
  for (uint32_t i = 0; i < count; ++i) out.push_back(static_cast<char>(i % 10));
  return out;
}

using NamedBytes = std::vector<std::pair<std::string, std::string>>;

// Writes a tar; `add_filter` is one of archive_write_add_filter_*.
inline void WriteTar(const std::string& path, const NamedBytes& files,
                     int (*add_filter)(archive*) = archive_write_add_filter_none) {
  archive* const tar = archive_write_new();
  EXPECT_EQ(archive_write_set_format_pax_restricted(tar), ARCHIVE_OK);
  EXPECT_EQ(add_filter(tar), ARCHIVE_OK);
  EXPECT_EQ(archive_write_open_filename(tar, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, bytes] : files) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, name.ends_with('/') ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(tar, entry), ARCHIVE_OK);
    EXPECT_EQ(archive_write_data(tar, bytes.data(), bytes.size()),
              static_cast<la_ssize_t>(bytes.size()));
    archive_entry_free(entry);
  }
  EXPECT_EQ(archive_write_close(tar), ARCHIVE_OK);
  archive_write_free(tar);
}

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_IMAGE_FIXTURES_H_
