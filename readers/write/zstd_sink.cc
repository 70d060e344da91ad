#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "readers/write/record_writer.h"
#include "xxhash.h"

// Seekable zstd: frames that do not know of each other, so that each is an entry, and a table of
// them in a frame that inflaters skip. Format: zstd's
// contrib/seekable_format/zstd_seekable_compression_format.md.

namespace millrace::readers {
namespace {

constexpr size_t kFrameInflatedBytes = 2 << 20;
constexpr uint32_t kSkippableMagic = 0x184d2a5e;
constexpr uint32_t kSeekTableMagic = 0x8f92eab1;
constexpr std::byte kTableHasChecksums{0x80};

class ZstdSink : public RecordSink {
 public:
  ZstdSink(AtomicFile& file, int level)
      : file_(file), frame_(ZSTD_compressBound(kFrameInflatedBytes)), context_(ZSTD_createCCtx()) {
    pending_.reserve(kFrameInflatedBytes);
    if (context_ == nullptr) return;
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
  }

  absl::Status Append(std::span<const std::byte> data) override {
    while (!data.empty()) {
      const auto piece = data.first(std::min(data.size(), kFrameInflatedBytes - pending_.size()));
      pending_.insert(pending_.end(), piece.begin(), piece.end());
      data = data.subspan(piece.size());
      if (pending_.size() == kFrameInflatedBytes) MILLRACE_RETURN_IF_ERROR(WriteFrame());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    // A shard without records is an empty frame: a table alone would not be a zstd file.
    if (!pending_.empty() || num_frames_ == 0) MILLRACE_RETURN_IF_ERROR(WriteFrame());
    return file_.Append(SeekTable());
  }

 private:
  struct FreeContext {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };

  absl::Status WriteFrame() {
    if (context_ == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(file_.path(), ": no memory for zstd"));
    }
    const size_t size = ZSTD_compress2(context_.get(), frame_.data(), frame_.size(),
                                       pending_.data(), pending_.size());
    if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) {
      return absl::ResourceExhaustedError(absl::StrCat(file_.path(), ": zstd: no memory"));
    }
    if (ZSTD_isError(size)) {
      return absl::InternalError(absl::StrCat(file_.path(), ": zstd: ", ZSTD_getErrorName(size)));
    }
    AddToTable(static_cast<uint32_t>(size));
    AddToTable(static_cast<uint32_t>(pending_.size()));
    AddToTable(static_cast<uint32_t>(XXH64(pending_.data(), pending_.size(), 0)));
    ++num_frames_;
    pending_.clear();
    return file_.Append({frame_.data(), size});
  }

  void AddToTable(uint32_t value) {
    table_.resize(table_.size() + sizeof value);
    StoreU32(value, &table_[table_.size() - sizeof value]);
  }

  // The skippable frame: a header, the entries, and a footer.
  std::vector<std::byte> SeekTable() const {
    constexpr size_t kHeader = 8;
    constexpr size_t kFooter = 9;
    std::vector<std::byte> bytes(kHeader + table_.size() + kFooter);
    StoreU32(kSkippableMagic, &bytes[0]);
    StoreU32(static_cast<uint32_t>(table_.size() + kFooter), &bytes[4]);
    std::ranges::copy(table_, &bytes[kHeader]);
    std::byte* const footer = &bytes[kHeader + table_.size()];
    StoreU32(num_frames_, footer);
    footer[4] = kTableHasChecksums;
    StoreU32(kSeekTableMagic, footer + 5);
    return bytes;
  }

  AtomicFile& file_;
  std::vector<std::byte> pending_;  // of the next frame
  std::vector<std::byte> frame_;
  std::vector<std::byte> table_;
  uint32_t num_frames_ = 0;
  const std::unique_ptr<ZSTD_CCtx, FreeContext> context_;
};

}  // namespace

std::unique_ptr<RecordSink> MakeZstdSink(AtomicFile& file, int level) {
  return std::make_unique<ZstdSink>(file, level);
}

}  // namespace millrace::readers
