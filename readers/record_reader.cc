#include "readers/record_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/byte_source.h"
#include "readers/chunk_pool.h"
#include "readers/record_reader_internal.h"
#include "readers/record_source.h"
#include "readers/tfrecord_format.h"

// Records are views into read chunks. A chunk is filled front to back and never rewritten while a
// record points into it; what is copied is only the start of a record that does not fit into the
// rest of its chunk, to the front of the next one. Each record shares ownership of its chunk.

namespace millrace::readers {
namespace {

constexpr size_t kMinChunkBytes = 64;

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
    if (!ReadsOnAfter(record.status())) dead_ = record.status();
    return record;
  }

 private:
  size_t Available() const { return end_ - begin_; }
  const std::byte* Front() const { return chunk_->bytes.get() + begin_; }

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
    record.keep_alive = chunk_;
    absl::Status status;
    if (options_.verify_crc &&
        !PayloadCrcOk({Front() + kHeaderBytes, header.length + kFooterBytes})) {
      status = Damage(RecordErrorReason::kDataCrc, "the CRC of the payload does not match");
    }
    begin_ += frame_bytes;
    offset_ += frame_bytes;
    ++ordinal_;
    if (!status.ok()) return status;
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

  // Reads until `want` bytes are available or the source ends.
  absl::Status Fill(size_t want) {
    if (Available() >= want) return absl::OkStatus();
    if (chunk_ == nullptr || chunk_->capacity - begin_ < want) {
      std::shared_ptr<Chunk> next = pool_->Take(want);
      if (next == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat(source_->path(), ": no memory for a record of ", want, " bytes"));
      }
      if (Available() > 0) std::memcpy(next->bytes.get(), Front(), Available());
      end_ = Available();
      begin_ = 0;
      chunk_ = std::move(next);
    }
    while (Available() < want) {
      const auto got = source_->Read({chunk_->bytes.get() + end_, chunk_->capacity - end_});
      if (!got.ok()) return Located(got.status());
      if (*got == 0) break;
      end_ += *got;
    }
    return absl::OkStatus();
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
  absl::Status Located(const absl::Status& status) const {
    absl::Status located =
        Annotate(status, absl::StrCat("record ", ordinal_, " at offset ", offset_));
    if (const std::optional<RecordError> error = GetRecordError(status)) {
      SetRecordError(located, Here(error->reason));
    }
    return located;
  }

  const std::unique_ptr<ByteSource> source_;
  const TfRecordReaderOptions options_;
  const uint64_t max_length_;
  const std::shared_ptr<ChunkPool> pool_;

  std::shared_ptr<Chunk> chunk_;
  size_t begin_ = 0;  // the bytes [begin_, end_) of chunk_ are read and not yet handed out
  size_t end_ = 0;
  uint64_t offset_ = 0;  // of begin_ in the inflated file
  uint64_t ordinal_ = 0;
  absl::Status dead_;
};

}  // namespace

bool ReadsOnAfter(const absl::Status& status) {
  const std::optional<RecordError> error = GetRecordError(status);
  return error.has_value() && error->reason == RecordErrorReason::kDataCrc;
}

std::unique_ptr<RecordReader> MakeTfRecordReader(std::unique_ptr<ByteSource> source,
                                                 const TfRecordReaderOptions& options) {
  return std::make_unique<TfRecordReader>(std::move(source), options);
}

absl::StatusOr<std::unique_ptr<RecordReader>> OpenTfRecordReader(
    const std::string& path, const TfRecordReaderOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(auto file, OpenFile(path));
  MILLRACE_ASSIGN_OR_RETURN(auto source, MakeByteSource(std::move(file), options.compression));
  return MakeTfRecordReader(std::move(source), options);
}

}  // namespace millrace::readers
