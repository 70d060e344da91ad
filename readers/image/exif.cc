#include "readers/exif.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "readers/png_chunks.h"

namespace millrace::readers {
namespace {

constexpr int kUpright = 1;
constexpr uint32_t kMagic = 42, kOrientationTag = 0x0112, kShort = 3, kLong = 4;
constexpr size_t kMaxEntries = 1 << 10;  // of a directory; Exif knows under a hundred tags

// Numbers of either byte order, at offsets that a file may lie about.
class Bytes {
 public:
  Bytes(std::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<uint32_t> Number(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return std::nullopt;
    uint32_t number = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t place = big_endian_ ? i : size - 1 - i;
      number = number << 8 | static_cast<uint8_t>(bytes_[at + place]);
    }
    return number;
  }

 private:
  const std::string_view bytes_;
  const bool big_endian_;
};

// Of a TIFF file (TIFF 6.0, section 2), which Exif data are; the tag is one of the first directory.
int OrientationOfTiff(std::string_view tiff) {
  constexpr size_t kEntryBytes = 12, kValueAt = 8;
  while (tiff.starts_with(kExifHeader)) tiff.remove_prefix(kExifHeader.size());
  if (!tiff.starts_with("II") && !tiff.starts_with("MM")) return kUpright;
  const Bytes bytes(tiff, tiff[0] == 'M');
  if (bytes.Number(2, 2) != kMagic) return kUpright;
  const auto directory = bytes.Number(4, 4);
  if (!directory) return kUpright;
  const auto count = bytes.Number(*directory, 2);
  if (!count || *count > kMaxEntries) return kUpright;
  for (size_t i = 0; i < *count; ++i) {
    const size_t entry = size_t{*directory} + 2 + i * kEntryBytes;
    const auto tag = bytes.Number(entry, 2);
    if (!tag) return kUpright;
    if (*tag != kOrientationTag) continue;
    const bool is_long = bytes.Number(entry + 2, 2) == kLong;
    const auto value = bytes.Number(entry + kValueAt, is_long ? 4 : 2);
    const bool valid = (is_long || bytes.Number(entry + 2, 2) == kShort) &&
                       bytes.Number(entry + 4, 4) == 1u && value && *value >= 1 && *value <= 8;
    return valid ? static_cast<int>(*value) : kUpright;
  }
  return kUpright;
}

std::string_view ExifOfJpeg(std::string_view encoded) {
  constexpr uint32_t kApp1 = 0xFFE1, kSos = 0xFFDA, kEoi = 0xFFD9, kLeastMarker = 0xFFC0;
  const Bytes bytes(encoded, true);
  size_t at = 2;
  while (const auto marker = bytes.Number(at, 2)) {
    if (*marker == 0xFFFF) {  // any number of 0xFF may stand before a marker
      ++at;
      continue;
    }
    const auto length = bytes.Number(at + 2, 2);
    if (*marker < kLeastMarker || *marker == kSos || *marker == kEoi || !length || *length < 2) {
      break;
    }
    if (*length > encoded.size() - at - 2) break;
    const std::string_view segment = encoded.substr(at + 4, *length - 2);
    if (*marker == kApp1 && segment.starts_with(kExifHeader)) return segment;
    at += 2 + size_t{*length};
  }
  return {};
}

std::string_view ExifOfPng(std::string_view encoded) {
  PngChunks chunks(encoded);
  while (const auto chunk = chunks.Next()) {
    if (!chunk->whole || chunk->type == "IDAT") break;
    if (chunk->type == "eXIf") return chunk->data;
  }
  return {};
}

}  // namespace

int ReadOrientation(std::string_view encoded) {
  if (encoded.starts_with("\xff\xd8")) return OrientationOfTiff(ExifOfJpeg(encoded));
  if (encoded.starts_with("\x89PNG")) return OrientationOfTiff(ExifOfPng(encoded));
  return kUpright;
}

std::string MakeExif(int orientation) {
  std::string exif("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0", 26);
  constexpr size_t kValueAt = 19;
  exif[kValueAt] = static_cast<char>(orientation);
  return exif;
}

}  // namespace millrace::readers
