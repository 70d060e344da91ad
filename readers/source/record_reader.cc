#include "readers/record_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container/detect.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/damage/compressed.h"
#include "readers/damage/parts.h"
#include "readers/file/chunk_pool.h"
#include "readers/inflate/byte_source.h"
#include "readers/open_file.h"
#include "readers/source/record_reader.h"

// Records are views into read chunks. A chunk is filled front to back and never rewritten while a
// record points into it; only the start of a record that does not fit into the rest of its chunk is
// copied, to the front of the next one. Each record shares ownership of its chunk. The
// bytes of a mapped file are the chunks themselves.
//
// With resync a stretch of damage is searched for the next record as it comes in, so that also what
// cannot be read twice can be: only the record that is looked at is held. A length that noise makes
// is rarely below the limit (2^-34 at each offset), but bytes may be made to look like headers: of
// what is read up to some place at most four times as much is checked and found bad.

namespace millrace::readers {
namespace {

constexpr size_t kMinChunkBytes = 64;
constexpr uint64_t kMostPasses = 4;  // over what was read, to check payloads while searching

class TfRecordReader : public RecordReader {
 public:
  TfRecordReader(std::unique_ptr<ByteSource> source, const TfRecordReaderOptions& options)
      : source_(std::move(source)),
        options_(options),
        max_length_(std::min(options.max_record_bytes, kMaxLength)),
        pool_(std::make_shared<ChunkPool>(std::max(options.chunk_bytes, kMinChunkBytes))) {}

  absl::StatusOr<std::optional<Record>> Next() override {
    if (!dead_.ok()) return dead_;
    auto record = Cut();
    if (record.ok()) return record;
    const std::optional<RecordError> error = GetRecordError(record.status());
    if (options_.resync && options_.verify_crc && error.has_value()) {
      return PassOver(record.status(), error->reason);
    }
    if (error.has_value() && error->reason == RecordErrorReason::kDataCrc) {
      Skip(FrontFrameBytes());
      ++ordinal_;
    } else {
      dead_ = record.status();
    }
    return record.status();
  }

  bool ReadsOn() const override { return dead_.ok(); }
  uint64_t skipped_bytes() const override { return skipped_bytes_; }

 private:
  size_t Available() const { return end_ - begin_; }
  const std::byte* Front() const { return bytes_ + begin_; }

  uint64_t FrontFrameBytes() const { return DecodeHeader(Front()).length + kFrameBytes; }

  // Takes the record at the front; a damaged one stays there.
  absl::StatusOr<std::optional<Record>> Cut() {
    MILLRACE_RETURN_IF_ERROR(Fill(kHeaderBytes));
    if (Available() == 0) return std::nullopt;
    if (Available() < kHeaderBytes) {
      return Damage(
          RecordErrorReason::kTruncatedHeader,
          absl::StrCat("the file ends after ", Available(), " of ", kHeaderBytes, " header bytes"));
    }
    const FrameHeader header = DecodeHeader(Front());
    MILLRACE_RETURN_IF_ERROR(CheckHeader(header));
    const size_t frame_bytes = header.length + kFrameBytes;
    MILLRACE_RETURN_IF_ERROR(Fill(frame_bytes));
    if (Available() < frame_bytes) return CutPayload(header.length);

    Record record;
    record.payload = {reinterpret_cast<const char*>(Front()) + kHeaderBytes, header.length};
    record.ref.ordinal = ordinal_;
    record.ref.offset = offset_;
    record.ref.length = header.length;
    record.keep_alive = held_;
    if (options_.verify_crc &&
        !PayloadCrcOk({Front() + kHeaderBytes, header.length + kFooterBytes})) {
      return Damage(RecordErrorReason::kDataCrc, "the CRC of the payload does not match");
    }
    Drop(frame_bytes);
    ++ordinal_;
    return record;
  }

  absl::Status CheckHeader(const FrameHeader& header) const {
    if (options_.verify_crc && !header.crc_ok) {
      const bool plain = source_->Remaining().has_value();
      const BadHeader bad = ExplainBadHeader(Front(), offset_, plain);
      return Damage(bad.reason, bad.text);
    }
    if (header.length > max_length_) {
      return Damage(
          RecordErrorReason::kAbsurdLength,
          absl::StrCat("a record of ", header.length, " bytes; the limit is ", max_length_));
    }
    const std::optional<uint64_t> remaining = source_->Remaining();
    if (remaining.has_value() && header.length + kFrameBytes > Available() + *remaining) {
      return CutPayload(header.length);
    }
    return absl::OkStatus();
  }

  void Drop(size_t bytes) {
    begin_ += bytes;
    offset_ += bytes;
  }
  void Skip(size_t bytes) {
    Drop(bytes);
    skipped_bytes_ += bytes;
  }

  // Goes on behind the damage at the front, and returns what there is to say of it.
  absl::Status PassOver(const absl::Status& damage, RecordErrorReason reason) {
    if (reason == RecordErrorReason::kWrongCompression) return dead_ = damage;
    const uint64_t begin = offset_;
    absl::StatusOr<bool> one_frame = false;
    if (reason == RecordErrorReason::kDataCrc) one_frame = FrameFollows();
    absl::Status passed = one_frame.status();
    if (passed.ok() && *one_frame) Skip(FrontFrameBytes());
    if (passed.ok() && !*one_frame) passed = FindFrame();
    if (!passed.ok()) return dead_ = passed;
    absl::Status said = damage;
    if (const LostBytes* lost = FindLost(source_->lost(), begin, offset_)) {
      said = At(begin, lost->damage);
    }
    ++ordinal_;
    if (*one_frame) return said;
    const std::string_view end = Available() > 0 ? "the next good record" : "the end of the file";
    absl::Status told(said.code(), absl::StrCat(said.message(), "; no record in the ",
                                                offset_ - begin, " bytes up to ", ToAbsl(end)));
    SetRecordError(told, *GetRecordError(said));
    return told;
  }

  // Whether a frame, or the end, follows the one at the front: then its payload alone is bad.
  absl::StatusOr<bool> FrameFollows() {
    const size_t frame_bytes = FrontFrameBytes();
    MILLRACE_RETURN_IF_ERROR(Fill(frame_bytes + kHeaderBytes));
    if (Available() < frame_bytes + kHeaderBytes) return Available() == frame_bytes;
    const FrameHeader next = DecodeHeader(Front() + frame_bytes);
    const std::optional<uint64_t> remaining = source_->Remaining();
    const uint64_t left = Available() - frame_bytes + remaining.value_or(kMaxLength);
    return next.crc_ok && next.length <= max_length_ && next.length + kFrameBytes <= left;
  }

  // Skips at least a byte, and all up to where a good record is at the front, or the end.
  absl::Status FindFrame() {
    Skip(1);
    while (true) {
      MILLRACE_RETURN_IF_ERROR(Fill(kFrameBytes));
      if (Available() < kFrameBytes) break;
      const size_t num_starts = Available() - kHeaderBytes + 1;
      const size_t start = FindHeader(num_starts);
      Skip(start);
      if (start == num_starts) continue;
      MILLRACE_ASSIGN_OR_RETURN(const bool good, FrontIsGood());
      if (good) return absl::OkStatus();
      Skip(1);
    }
    Skip(Available());
    return absl::OkStatus();
  }

  // Of the available bytes; `num_starts` when there is none.
  size_t FindHeader(size_t num_starts) const {
    for (size_t i = 0; i < num_starts; ++i) {
      if (LoadU64(Front() + i) <= max_length_ && DecodeHeader(Front() + i).crc_ok) return i;
    }
    return num_starts;
  }

  // Whether the payload behind the good header at the front is good.
  absl::StatusOr<bool> FrontIsGood() {
    const uint64_t length = DecodeHeader(Front()).length;
    const std::optional<uint64_t> remaining = source_->Remaining();
    if (remaining.has_value() && length + kFrameBytes > Available() + *remaining) return false;
    if (checked_bytes_ > kMostPasses * (offset_ + Available())) return false;
    checked_bytes_ += length;
    MILLRACE_RETURN_IF_ERROR(Fill(length + kFrameBytes));
    if (Available() < length + kFrameBytes) return false;
    return PayloadCrcOk({Front() + kHeaderBytes, length + kFooterBytes});
  }

  // Reads until `want` bytes are available or the source ends.
  absl::Status Fill(size_t want) {
    if (Available() >= want || Borrow(want)) return absl::OkStatus();
    if (chunk_ == nullptr || chunk_->capacity - begin_ < want) {
      std::shared_ptr<Chunk> next = pool_->Take(want);
      if (next == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat(source_->path(), ": no memory for a record of ", want, " bytes"));
      }
      if (Available() > 0) std::memcpy(next->bytes.get(), Front(), Available());
      chunk_ = std::move(next);
      Show(chunk_->bytes.get(), Available(), chunk_);
    }
    while (Available() < want) {
      const auto got = source_->Read({chunk_->bytes.get() + end_, chunk_->capacity - end_});
      if (!got.ok()) return Located(got.status());
      if (*got == 0) break;
      end_ += *got;
    }
    return absl::OkStatus();
  }

  // Of a source whose bytes lie in memory as they are.
  bool Borrow(size_t want) {
    HeldBytes view = source_->Borrow(Available(), std::max(want, options_.chunk_bytes));
    if (view.bytes.empty()) return false;
    chunk_.reset();
    Show(view.bytes.data(), view.bytes.size(), std::move(view.held));
    return true;
  }

  void Show(const std::byte* bytes, size_t size, std::shared_ptr<const void> held) {
    bytes_ = bytes;
    begin_ = 0;
    end_ = size;
    held_ = std::move(held);
  }

  RecordError Here(RecordErrorReason reason) const {
    RecordError error;
    error.file = source_->path();
    error.offset = static_cast<int64_t>(offset_);
    error.ordinal = static_cast<int64_t>(ordinal_);
    error.reason = reason;
    return error;
  }

  absl::Status Damage(RecordErrorReason reason, std::string_view text) const {
    return MakeRecordError(absl::StatusCode::kDataLoss, Here(reason), text);
  }

  absl::Status CutPayload(uint64_t length) const {
    return Damage(RecordErrorReason::kTruncatedPayload,
                  absl::StrCat("the file ends inside a record of ", length, " bytes"));
  }

  // Adds to the source's status which record it was that could not be read.
  absl::Status Located(const absl::Status& status) const { return At(offset_, status); }
  absl::Status At(uint64_t offset, const absl::Status& status) const {
    RecordError place = Here(RecordErrorReason::kUnknown);
    place.offset = static_cast<int64_t>(offset);
    return ErrorAtRecord(status, place);
  }

  const std::unique_ptr<ByteSource> source_;
  const TfRecordReaderOptions options_;
  const uint64_t max_length_;
  const std::shared_ptr<ChunkPool> pool_;

  std::shared_ptr<Chunk> chunk_;  // where bytes_ are, if they had to be read
  const std::byte* bytes_ = nullptr;
  std::shared_ptr<const void> held_;  // what keeps them
  size_t begin_ = 0;                  // of bytes_, [begin_, end_) are not yet handed out
  size_t end_ = 0;
  uint64_t offset_ = 0;  // of begin_ in the inflated file
  uint64_t ordinal_ = 0;
  uint64_t skipped_bytes_ = 0;
  uint64_t checked_bytes_ = 0;  // of payloads, while searching
  absl::Status dead_;
};

}  // namespace

std::unique_ptr<RecordReader> MakeTfRecordReader(std::unique_ptr<ByteSource> source,
                                                 const TfRecordReaderOptions& options) {
  return std::make_unique<TfRecordReader>(std::move(source), options);
}

absl::StatusOr<std::unique_ptr<RecordReader>> OpenTfRecordReader(
    const std::string& path, const TfRecordReaderOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(auto file, OpenFile(path, options.access));
  Compression compression = options.compression;
  if (compression == Compression::kAuto) {
    MILLRACE_ASSIGN_OR_RETURN(compression, DetectCompression(*file));
  }
  if (options.resync && options.verify_crc && compression != Compression::kNone) {
    return MakeTfRecordReader(MakeResyncSource(std::move(file), compression), options);
  }
  MILLRACE_ASSIGN_OR_RETURN(auto source, MakeByteSource(std::move(file), compression));
  return MakeTfRecordReader(std::move(source), options);
}

}  // namespace millrace::readers
