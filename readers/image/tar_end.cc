#include "readers/image/tar_end.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/container/tar_walk.h"
#include "readers/open_file.h"

namespace millrace::readers::internal {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

// Reads the bytes that come next, 0 at the end.
using ReadNext = std::function<absl::StatusOr<size_t>(std::span<std::byte>)>;

absl::Status Damaged(const std::string& path, uint64_t at, std::string_view text) {
  return absl::DataLossError(absl::StrCat(path, ": byte ", at, ": ", ToAbsl(text)));
}

absl::Status CheckRest(const std::string& path, uint64_t end, const ReadNext& read) {
  std::vector<std::byte> window(kReadBytes);
  uint64_t zeros = 0;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, read(window));
    if (got == 0) break;
    const auto bytes = std::span(window).first(got);
    const auto other =
        std::ranges::find_if(bytes, [](std::byte byte) { return byte != std::byte{0}; });
    zeros += static_cast<uint64_t>(other - bytes.begin());
    if (other != bytes.end()) return Damaged(path, end + zeros, kBehindTarEnd);
  }
  if (zeros < kTarBlock) return Damaged(path, end + zeros, kNoTarEnd);
  if (zeros > kMostTarEndBytes) return Damaged(path, end, TooManyZeros(zeros));
  return absl::OkStatus();
}

absl::Status CheckPlain(const std::string& path, uint64_t end) {
  MILLRACE_ASSIGN_OR_RETURN(const auto file, OpenFile(path));
  uint64_t at = end;
  return CheckRest(path, end, [&](std::span<std::byte> out) {
    auto got = file->ReadAt(at, out);
    at += got.value_or(0);
    return got;
  });
}

}  // namespace

absl::Status CheckTarEnd(const Libarchive& lib, const std::string& path, uint64_t end) {
  const std::unique_ptr<archive, decltype(lib.read_free)> raw(lib.read_new(), lib.read_free);
  if (raw == nullptr) return absl::ResourceExhaustedError("libarchive: no memory");
  const auto failed = [&] {
    const char* const message = lib.error_string(raw.get());
    return absl::DataLossError(
        absl::StrCat(path, ": ", message == nullptr ? "unknown error" : message));
  };
  archive_entry* entry = nullptr;
  if (lib.read_support_format_raw(raw.get()) != ARCHIVE_OK ||
      lib.read_support_filter_gzip(raw.get()) != ARCHIVE_OK ||
      lib.read_support_filter_bzip2(raw.get()) != ARCHIVE_OK ||
      lib.read_support_filter_xz(raw.get()) != ARCHIVE_OK ||
      lib.read_open_filename(raw.get(), path.c_str(), kReadBytes) != ARCHIVE_OK ||
      lib.read_next_header(raw.get(), &entry) != ARCHIVE_OK) {
    return failed();
  }
  constexpr int kNone = 1;  // the filter of a file as it is
  if (lib.filter_count(raw.get()) == kNone) return CheckPlain(path, end);
  const ReadNext read = [&](std::span<std::byte> out) -> absl::StatusOr<size_t> {
    const la_ssize_t got = lib.read_data(raw.get(), out.data(), out.size());
    if (got < 0) return failed();
    return static_cast<size_t>(got);
  };
  std::vector<std::byte> passed(kReadBytes);
  for (uint64_t left = end; left > 0;) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got,
                              read(std::span(passed).first(std::min<uint64_t>(left, kReadBytes))));
    if (got == 0) return Damaged(path, end - left, kNoTarEnd);
    left -= got;
  }
  return CheckRest(path, end, read);
}

}  // namespace millrace::readers::internal
