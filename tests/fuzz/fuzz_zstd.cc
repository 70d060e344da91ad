#include <zstd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "readers/inflate/deflate_source.h"
#include "tests/fuzz/fuzz_input.h"

// zstd streams: what libzstd decompresses to its end we inflate to the same bytes, and what it
// refuses or finds cut we report.

namespace millrace::readers {
namespace {

constexpr size_t kMaxInflatedBytes = 4 << 20;
constexpr int kMostWindowLog = 27;  // what ours allows

// nullopt: damaged, cut, or more than kMaxInflatedBytes. libzstd gets what it asks for, as ours
// does: given all at once it refuses an empty compressed block, which it takes in steps.
std::optional<std::string> InflateWithLibzstd(std::string_view bytes) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMostWindowLog);
  std::string out;
  std::string buffer(64 << 10, '\0');
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  size_t left = 1;  // 0: between frames
  while (in.pos < in.size || left != 0) {
    ZSTD_outBuffer to = {buffer.data(), buffer.size(), 0};
    const size_t before = in.pos;
    ZSTD_inBuffer shown = {in.src, std::min(in.size, in.pos + std::max(left, size_t{5})), in.pos};
    left = ZSTD_decompressStream(context.get(), &to, &shown);
    if (ZSTD_isError(left) != 0) return std::nullopt;
    in.pos = shown.pos;
    out.append(buffer, 0, to.pos);
    if (out.size() > kMaxInflatedBytes) return std::nullopt;
    if (left != 0 && in.pos == before && to.pos == 0) return std::nullopt;  // cut
  }
  return out;
}

std::optional<std::string> InflateWithMillrace(std::shared_ptr<const RandomAccessFile> file,
                                               size_t chunk_bytes) {
  const auto source = MakeZstdSource(std::move(file), chunk_bytes);
  std::string out;
  std::vector<std::byte> buffer(64 << 10);
  while (out.size() <= kMaxInflatedBytes) {
    const auto got = source->Read(buffer);
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
  const auto file = std::make_shared<fuzz::InputFile>(data, size);
  const auto ours = InflateWithMillrace(file, size_t{16} << (choice >> 4));
  if (!ours.has_value()) return 0;  // ours asks for a frame at least, and looks at skippable ones
  fuzz::Require(ours == InflateWithLibzstd(file->text()), "libzstd inflates to the same bytes");
  return 0;
}
