#include "readers/damage/compressed.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/inflate/deflate_source.h"

namespace millrace::readers {
namespace {

constexpr size_t kChunkBytes = 256 << 10;  // of the file, read at a time
constexpr size_t kProbeBytes = 1 << 10;    // inflated of what may be a member
constexpr size_t kProbeChunkBytes = 4 << 10;
constexpr uint64_t kMostPasses = 4;         // over the file's bytes, to find members
constexpr uint64_t kLeastBudget = 1 << 20;  // besides: a probe counts as at least 4 KiB

std::string_view MagicOf(Compression compression) {
  using namespace std::string_view_literals;
  switch (compression) {
    case Compression::kGzip:
      return "\x1f\x8b\x08"sv;
    case Compression::kZstd:
      return "\x28\xb5\x2f\xfd"sv;
    default:
      return "";  // nothing follows the one stream
  }
}

bool HasHeader(std::span<const std::byte> bytes) {
  for (; bytes.size() >= kHeaderBytes; bytes = bytes.subspan(1)) {
    if (DecodeHeader(bytes.data()).crc_ok) return true;
  }
  return false;
}

// Finds where members begin. Thread-compatible.
class MemberSearch {
 public:
  MemberSearch(std::shared_ptr<const RandomAccessFile> file, Compression compression)
      : file_(std::move(file)),
        compression_(compression),
        magic_(MagicOf(compression)),
        budget_(kMostPasses * file_->size() + kLeastBudget) {}

  // The first place from `from` on. Nullopt: there is none, or no budget is left.
  absl::StatusOr<std::optional<uint64_t>> Next(uint64_t from) {
    if (magic_.empty()) return std::nullopt;
    std::vector<char> window(kChunkBytes);
    while (budget_ > 0) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t got,
                                file_->ReadAt(from, std::as_writable_bytes(std::span(window))));
      if (got < magic_.size()) return std::nullopt;
      const std::string_view bytes(window.data(), got);
      for (size_t at = bytes.find(magic_); at != bytes.npos; at = bytes.find(magic_, at + 1)) {
        MILLRACE_ASSIGN_OR_RETURN(const bool found, IsMember(from + at));
        if (found) return from + at;
        if (budget_ == 0) return std::nullopt;
      }
      from += got - magic_.size() + 1;
    }
    return std::nullopt;
  }

  // Bytes of the file were inflated that may have been for nothing.
  void Charge(uint64_t bytes) {
    budget_ -= std::min(budget_, std::max<uint64_t>(bytes, kProbeChunkBytes));
  }

 private:
  absl::StatusOr<bool> IsMember(uint64_t at) {
    const auto source = MakeEnterableSource(file_, compression_, kProbeChunkBytes, at);
    std::array<std::byte, kProbeBytes> probe;
    size_t filled = 0;
    absl::Status status;
    while (filled < probe.size() && !source->ended()) {
      const auto got = source->Read(std::span(probe).subspan(filled));
      status = got.status();
      if (!got.ok()) break;
      filled += *got;
    }
    Charge(source->consumed() - at);
    if (!status.ok() && !GetRecordError(status).has_value()) return status;
    // Damage behind the first member is another's.
    const bool ended = source->ended() || source->member_begin() > at;
    return ended || filled == probe.size() || HasHeader(std::span(probe).first(filled));
  }

  const std::shared_ptr<const RandomAccessFile> file_;
  const Compression compression_;
  const std::string_view magic_;
  uint64_t budget_;
};

class ResyncSource : public ByteSource {
 public:
  ResyncSource(std::shared_ptr<const RandomAccessFile> file, Compression compression,
               uint64_t begin)
      : file_(file),
        compression_(compression),
        search_(std::move(file), compression),
        source_(MakeEnterableSource(file_, compression, kChunkBytes, begin)) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    while (true) {
      if (zeros_left_ > 0) return Zeros(out);
      if (source_ == nullptr) return size_t{0};
      auto got = source_->Read(out);
      if (got.ok()) {
        offset_ += *got;
        return got;
      }
      const std::optional<RecordError> error = GetRecordError(got.status());
      if (!error.has_value() || error->reason == RecordErrorReason::kWrongCompression) return got;
      MILLRACE_RETURN_IF_ERROR(GoOnBehind(got.status()));
    }
  }

  std::optional<uint64_t> Remaining() const override { return std::nullopt; }
  std::span<const LostBytes> lost() const override { return lost_; }
  const std::string& path() const override { return file_->path(); }

 private:
  size_t Zeros(std::span<std::byte> out) {
    const size_t count = std::min<uint64_t>(out.size(), zeros_left_);
    std::memset(out.data(), 0, count);
    zeros_left_ -= count;
    offset_ += count;
    return count;
  }

  // A damaged member may have been inflated far into those behind it: they are looked for from its
  // own begin on.
  absl::Status GoOnBehind(const absl::Status& damage) {
    if (!lost_.empty()) search_.Charge(source_->consumed() - entered_at_);
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<uint64_t> next,
                              search_.Next(source_->member_begin() + 1));
    lost_.push_back({.begin = offset_, .damage = damage});
    zeros_left_ = kLostBytes;
    entered_at_ = next.value_or(0);
    source_ =
        next.has_value() ? MakeEnterableSource(file_, compression_, kChunkBytes, *next) : nullptr;
    return absl::OkStatus();
  }

  const std::shared_ptr<const RandomAccessFile> file_;
  const Compression compression_;
  MemberSearch search_;
  std::unique_ptr<EnterableSource> source_;  // null: nothing more can be had
  uint64_t entered_at_ = 0;                  // of source_, in the file
  uint64_t offset_ = 0;                      // of what was handed out
  uint64_t zeros_left_ = 0;
  std::vector<LostBytes> lost_;
};

}  // namespace

std::unique_ptr<ByteSource> MakeResyncSource(std::shared_ptr<const RandomAccessFile> file,
                                             Compression compression, uint64_t begin) {
  return std::make_unique<ResyncSource>(std::move(file), compression, begin);
}

}  // namespace millrace::readers
