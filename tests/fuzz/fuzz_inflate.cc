#include <zlib.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "readers/inflate/byte_source.h"
#include "tests/fuzz/fuzz_input.h"

// gzip and zlib streams: what zlib accepts we inflate to the same bytes, and what it refuses or
// finds cut we report. Zeros behind the last gzip member are no damage, as for gzip(1).

namespace millrace::readers {
namespace {

constexpr size_t kMaxInflatedBytes = 4 << 20;

bool OnlyZeros(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == '\0'; });
}

// nullopt: damaged, or more than kMaxInflatedBytes.
std::optional<std::string> InflateWithZlib(std::string_view bytes, bool gzip) {
  std::string out;
  do {  // members follow each other
    z_stream stream = {};
    if (inflateInit2(&stream, gzip ? MAX_WBITS + 16 : MAX_WBITS) != Z_OK) return std::nullopt;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    std::string buffer(64 << 10, '\0');
    int result = Z_OK;
    while (result == Z_OK && out.size() <= kMaxInflatedBytes) {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      result = inflate(&stream, Z_NO_FLUSH);
      out.append(buffer, 0, buffer.size() - stream.avail_out);
    }
    bytes.remove_prefix(bytes.size() - stream.avail_in);
    inflateEnd(&stream);
    if (result != Z_STREAM_END || out.size() > kMaxInflatedBytes) return std::nullopt;
  } while (gzip && !OnlyZeros(bytes));
  if (!gzip && !bytes.empty()) return std::nullopt;
  return out;
}

std::optional<std::string> InflateWithMillrace(std::shared_ptr<const RandomAccessFile> file,
                                               Compression compression, size_t chunk_bytes) {
  const auto source = MakeByteSource(std::move(file), compression, chunk_bytes);
  fuzz::Require(source.ok(), "a named compression needs no look at the file");
  std::string out;
  std::vector<std::byte> buffer(64 << 10);
  while (out.size() <= kMaxInflatedBytes) {
    const auto got = (*source)->Read(buffer);
    if (!got.ok()) return std::nullopt;
    if (*got == 0) return out;
    out.append(reinterpret_cast<const char*>(buffer.data()), *got);
  }
  return std::nullopt;
}

}  // namespace
}  // namespace millrace::readers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;           // NOLINT
  using namespace millrace::readers;  // NOLINT
  const uint8_t choice = fuzz::TakeByte(data, size);
  const bool gzip = (choice & 1) == 0;
  const auto file = std::make_shared<fuzz::InputFile>(data, size);
  const size_t chunk_bytes = size_t{16} << (choice >> 4);
  const auto ours =
      InflateWithMillrace(file, gzip ? Compression::kGzip : Compression::kZlib, chunk_bytes);
  const auto theirs = InflateWithZlib(file->text(), gzip);
  fuzz::Require(!theirs.has_value() || ours == theirs, "what zlib accepts gives the same bytes");
  fuzz::Require(!ours.has_value() || theirs.has_value(), "what zlib refuses is refused");
  return 0;
}
