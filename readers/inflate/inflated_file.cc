#include "readers/inflate/inflated_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/file/xxh3.h"
#include "readers/open_file.h"

namespace millrace::readers {
namespace {

// The last inflated bytes before a place.
class Window {
 public:
  std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }
  // For the caller that fills it from the front.
  std::span<std::byte> room() { return bytes_; }
  void set_size(size_t size) { size_ = size; }

  // Goes on to the end of `next`, which follows.
  void Append(std::span<const std::byte> next) {
    next = next.last(std::min(next.size(), kWindowBytes));
    const size_t keep = std::min(size_, kWindowBytes - next.size());
    std::memmove(bytes_.data(), &bytes_[size_ - keep], keep);
    std::ranges::copy(next, &bytes_[keep]);
    size_ = keep + next.size();
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kWindowBytes);
  size_t size_ = 0;
};

class InflatedFile : public RandomAccessFile, public SpannedFile {
 public:
  InflatedFile(std::shared_ptr<const RandomAccessFile> file, AccessPoints points,
               std::shared_ptr<SpanCache> cache)
      : file_(std::move(file)),
        points_(std::move(points)),
        cache_(std::move(cache)),
        number_(cache_->NewFile()) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size()) return size_t{0};
    out = out.first(std::min<uint64_t>(out.size(), size() - offset));
    const size_t total = out.size();
    for (size_t span = points_.SpanOf(offset); !out.empty(); ++span) {
      MILLRACE_ASSIGN_OR_RETURN(const SpanCache::Bytes bytes, cache_->Get(*this, span));
      Copy(*bytes, span, offset, out);
    }
    return total;
  }

  bool TryReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size() || out.size() > size() - offset) return false;
    for (size_t span = points_.SpanOf(offset); !out.empty(); ++span) {
      const SpanCache::Bytes bytes = cache_->Find(*this, span);
      if (bytes == nullptr) return false;
      Copy(*bytes, span, offset, out);
    }
    return true;
  }

  uint64_t size() const override { return points_.out_bytes; }
  const std::string& path() const override { return file_->path(); }

  uint64_t number() const override { return number_; }
  size_t num_spans() const override { return points_.spans.size(); }
  size_t span_bytes(size_t span) const override { return points_.span_bytes(span); }

  absl::Status Inflate(size_t span, const Chunk* before, SpanWorkspace& workspace,
                       std::span<std::byte> out) const override {
    if (!points_.spans[span].in_member) return InflateSpan(span, {}, workspace, out);
    Window window;
    const size_t bytes_before = span == 0 ? 0 : span_bytes(span - 1);
    if (before != nullptr && bytes_before >= kWindowBytes) {
      window.Append({before->bytes.get(), bytes_before});
    } else if (!LoadWindow(span, window)) {
      MILLRACE_RETURN_IF_ERROR(InflateWindow(span, workspace, window));
    }
    return InflateSpan(span, window.bytes(), workspace, out);
  }

 private:
  // Copies what is of `span` to the front of `out`, and goes on to what is not.
  void Copy(const Chunk& bytes, size_t span, uint64_t& offset, std::span<std::byte>& out) const {
    const size_t at = offset - points_.spans[span].out;
    const size_t count = std::min(out.size(), span_bytes(span) - at);
    std::memcpy(out.data(), bytes.bytes.get() + at, count);
    offset += count;
    out = out.subspan(count);
  }

  // False when it is gone or damaged.
  bool LoadWindow(size_t span, Window& window) const {
    const AccessSpan& info = points_.spans[span];
    window.set_size(0);
    if (!info.in_member) return true;
    std::vector<std::byte> packed(info.window_bytes);
    if (!ReadFully(*points_.windows, info.window_at, packed).ok()) return false;
    if (XXH3_64bits(packed.data(), packed.size()) != info.window_digest) return false;
    const auto size = UnpackWindow(packed, window.room());
    window.set_size(size.value_or(0));
    return size.has_value();
  }

  // Makes the window of a span by inflating what is before it, from where that is possible.
  absl::Status InflateWindow(size_t span, SpanWorkspace& workspace, Window& window) const {
    size_t first = span;
    do {  // the first span needs none
      --first;
    } while (!LoadWindow(first, window));
    std::vector<std::byte> bytes;
    for (; first < span; ++first) {
      bytes.resize(span_bytes(first));
      MILLRACE_RETURN_IF_ERROR(InflateSpan(first, window.bytes(), workspace, bytes));
      window.Append(bytes);
    }
    return absl::OkStatus();
  }

  absl::Status InflateSpan(size_t span, std::span<const std::byte> window, SpanWorkspace& workspace,
                           std::span<std::byte> out) const {
    const AccessSpan& info = points_.spans[span];
    const uint64_t in_begin = points_.in_begin(span);
    workspace.in.resize(points_.in_end(span) - in_begin);
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(in_begin, workspace.in));
    CompressedSpan compressed;
    compressed.compression = points_.compression;
    compressed.in = std::span(workspace.in).first(got);
    compressed.skip_bits = info.in_bits % 8;
    compressed.in_member = info.in_member;
    compressed.window = window;
    const std::string_view wrong = workspace.inflater.Inflate(compressed, out);
    if (!wrong.empty()) return Damage(span, wrong);
    if (XXH3_64bits(out.data(), out.size()) == info.digest) return absl::OkStatus();
    return Damage(span, "its checksum does not match");
  }

  absl::Status Damage(size_t span, std::string_view text) const {
    RecordError error;
    error.file = path();
    error.reason = RecordErrorReason::kCompressedData;
    return MakeRecordError(
        absl::StatusCode::kDataLoss, error,
        absl::StrCat("inflated bytes ", points_.spans[span].out, " to ", points_.out_end(span),
                     ", from compressed byte ", points_.in_begin(span), " on: ", ToAbsl(text),
                     "; the shard is damaged, or was changed after it was indexed"));
  }

  const std::shared_ptr<const RandomAccessFile> file_;
  const AccessPoints points_;
  const std::shared_ptr<SpanCache> cache_;
  const uint64_t number_;
};

}  // namespace

std::shared_ptr<const RandomAccessFile> MakeInflatedFile(
    std::shared_ptr<const RandomAccessFile> file, AccessPoints points,
    std::shared_ptr<SpanCache> cache) {
  return std::make_shared<InflatedFile>(std::move(file), std::move(points), std::move(cache));
}

}  // namespace millrace::readers
