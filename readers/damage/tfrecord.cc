#include "readers/damage/tfrecord.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/open_file.h"

namespace millrace::readers {
namespace {

constexpr size_t kScanWindowBytes = 1 << 20;
constexpr size_t kFirstWindowBytes = 4 << 10;  // the next record mostly begins near by
constexpr uint64_t kMaxPasses = 4;             // over the file's bytes, to check payloads

}  // namespace

ResyncWalk::ResyncWalk(const RandomAccessFile& file, uint64_t max_record_bytes)
    : file_(file),
      max_length_(std::min(max_record_bytes, kMaxLength)),
      check_bytes_(kMaxPasses * file.size()),
      buffer_(kScanWindowBytes) {}

// One frame is held back, for the one behind it may show that it is none.
absl::StatusOr<std::optional<Stretch>> ResyncWalk::Next() {
  while (offset_ < file_.size()) {
    MILLRACE_ASSIGN_OR_RETURN(Stretch next, Look());
    if (!next.framed) MILLRACE_RETURN_IF_ERROR(FindEnd(&next));
    offset_ = next.offset + next.bytes;
    std::optional<Stretch> before = std::exchange(pending_, next);
    if (before.has_value()) return before;
  }
  return std::exchange(pending_, std::nullopt);
}

// Finds out where the stretch ends, and whether it begins in the record before.
absl::Status ResyncWalk::FindEnd(Stretch* stretch) {
  bool doubtful = pending_.has_value() && pending_->framed;
  if (doubtful) {
    MILLRACE_ASSIGN_OR_RETURN(const bool good,
                              PayloadOk(pending_->offset, pending_->bytes - kFrameBytes));
    doubtful = !good;
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t end,
                            FindFrame((doubtful ? pending_->offset : stretch->offset) + 1));
  if (doubtful) {
    MILLRACE_ASSIGN_OR_RETURN(const bool alone, IsFrame(stretch->offset, end));
    if (!alone) {
      *stretch = {.offset = pending_->offset,
                  .bytes = 0,
                  .framed = false,
                  .reason = RecordErrorReason::kDataCrc};
      pending_.reset();
    }
  }
  stretch->bytes = end - stretch->offset;
  return absl::OkStatus();
}

// True if [begin, end) is one frame with a damaged header: its length fits, or its payload's CRC.
absl::StatusOr<bool> ResyncWalk::IsFrame(uint64_t begin, uint64_t end) {
  if (end < begin + kFrameBytes) return false;
  const uint64_t length = end - begin - kFrameBytes;
  std::byte header[sizeof(uint64_t)];
  MILLRACE_RETURN_IF_ERROR(ReadFully(file_, begin, header));
  if (LoadU64(header) == length) return true;
  return PayloadOk(begin, length);
}

// Returns the stretch that the header at offset_ tells of.
absl::StatusOr<Stretch> ResyncWalk::Look() {
  Stretch stretch{.offset = offset_, .bytes = 0, .framed = false, .reason = {}};
  const uint64_t left = file_.size() - offset_;
  if (left < kHeaderBytes) {
    stretch.reason = RecordErrorReason::kTruncatedHeader;
    return stretch;
  }
  std::byte bytes[kHeaderBytes];
  MILLRACE_RETURN_IF_ERROR(ReadFully(file_, offset_, bytes));
  const FrameHeader header = DecodeHeader(bytes);
  if (!header.crc_ok) {
    stretch.reason = RecordErrorReason::kLengthCrc;
  } else if (header.length > max_length_) {
    stretch.reason = RecordErrorReason::kAbsurdLength;
  } else if (left < kFrameBytes || header.length > left - kFrameBytes) {
    stretch.reason = RecordErrorReason::kTruncatedPayload;
  } else {
    stretch.framed = true;
    stretch.bytes = header.length + kFrameBytes;
  }
  return stretch;
}

// The first offset from `from` on where a good record begins, or the end of the file.
absl::StatusOr<uint64_t> ResyncWalk::FindFrame(uint64_t from) {
  const uint64_t size = file_.size();
  std::vector<std::byte> window(kFirstWindowBytes);
  while (from + kFrameBytes <= size) {
    const size_t bytes = std::min<uint64_t>(window.size(), size - from);
    MILLRACE_RETURN_IF_ERROR(ReadFully(file_, from, std::span(window).first(bytes)));
    const size_t starts = bytes - kHeaderBytes + 1;
    for (size_t i = 0; i < starts; ++i) {
      const uint64_t left = size - from - i;
      const uint64_t length = LoadU64(window.data() + i);
      if (left < kFrameBytes || length > max_length_ || length > left - kFrameBytes) continue;
      if (!DecodeHeader(window.data() + i).crc_ok) continue;
      MILLRACE_ASSIGN_OR_RETURN(const bool good, PayloadOk(from + i, length));
      if (good) return from + i;
    }
    from += starts;
    window.resize(std::min(2 * window.size(), kScanWindowBytes));
  }
  return size;
}

absl::StatusOr<bool> ResyncWalk::PayloadOk(uint64_t offset, uint64_t length) {
  if (length > check_bytes_) return false;
  check_bytes_ -= length;
  Crc32c crc;
  uint64_t at = offset + kHeaderBytes;
  for (uint64_t left = length; left > 0;) {
    const auto piece = std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), left));
    MILLRACE_RETURN_IF_ERROR(ReadFully(file_, at, piece));
    crc.Add(piece);
    at += piece.size();
    left -= piece.size();
  }
  std::byte footer[kFooterBytes];
  MILLRACE_RETURN_IF_ERROR(ReadFully(file_, at, footer));
  return crc.Masked() == LoadU32(footer);
}

absl::Status ResyncRecords(const RandomAccessFile& file, uint64_t max_record_bytes,
                           std::vector<uint64_t>& begins) {
  ResyncWalk walk(file, max_record_bytes);
  begins.assign(1, 0);
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<Stretch> stretch, walk.Next());
    if (!stretch.has_value()) break;
    const uint64_t end = stretch->offset + stretch->bytes;
    if (stretch->bytes >= kFrameBytes) {
      begins.push_back(end);
    } else if (begins.size() > 1) {
      begins.back() = end;
    }
  }
  if (begins.size() > 1) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file.path(), ": no record in ", file.size(), " bytes"));
}

absl::Status ReadFramedPayload(const RandomAccessFile& file, uint64_t offset, uint64_t length,
                               std::vector<std::byte>* payload) {
  payload->resize(length + kFooterBytes);
  MILLRACE_RETURN_IF_ERROR(ReadFully(file, offset + kHeaderBytes, *payload));
  const bool good = PayloadCrcOk(*payload);
  payload->resize(length);
  return good ? absl::OkStatus() : absl::DataLossError("the CRC of the payload does not match");
}

}  // namespace millrace::readers
