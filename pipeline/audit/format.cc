#include "pipeline/audit/format.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/status.h"
#include "readers/open_file.h"

// A block is a frame of 24 bytes, all little endian, and a payload of varints. One write per block
// and a checksum over all of it are what a kill needs: either the block is there or it is torn, and
// a torn one is at the end. A row costs about 6 bytes: its distance to the row before, and the
// differences of its id to the id before.

namespace millrace::pipeline {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kMagic = 0x4156'524Du;  // "MRVA"
constexpr uint32_t kFormat = 1;
constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMaxRows = uint64_t{1} << 32;

struct Frame {
  uint32_t magic;
  uint32_t kind;
  uint32_t payload_bytes;
  uint32_t frame_checksum;  // low half of XXH3-64 of the three words before
  uint64_t checksum;        // XXH3-64 of the payload
};
static_assert(sizeof(Frame) == 24);

uint32_t FrameChecksum(const Frame& frame) {
  return static_cast<uint32_t>(XXH3_64bits(&frame, offsetof(Frame, frame_checksum)));
}

class Writer {
 public:
  void Number(uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }
  // A difference modulo 2^64, small in either direction.
  void Difference(uint64_t to, uint64_t from) {
    const uint64_t difference = to - from;
    Number((difference << 1) ^ (0 - (difference >> 63)));
  }
  // The block around what was written.
  std::string Finish(AuditBlockKind kind) const {
    Frame frame = {kMagic, static_cast<uint32_t>(kind), static_cast<uint32_t>(bytes_.size()), 0,
                   XXH3_64bits(bytes_.data(), bytes_.size())};
    frame.frame_checksum = FrameChecksum(frame);
    std::string block(sizeof(frame), '\0');
    std::memcpy(block.data(), &frame, sizeof(frame));
    return block + bytes_;
  }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t Number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  uint64_t Difference(uint64_t from) {
    const uint64_t word = Number();
    return from + ((word >> 1) ^ (0 - (word & 1)));
  }
  // At most as many things as there are bytes left.
  size_t Count() {
    const uint64_t count = Number();
    ok_ = ok_ && count <= bytes_.size();
    return ok_ ? static_cast<size_t>(count) : 0;
  }
  int64_t Row() {
    const uint64_t row = Number();
    ok_ = ok_ && row <= kMaxRows;
    return ok_ ? static_cast<int64_t>(row) : 0;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;  // true if no number so far was out of range
};

std::optional<uint64_t> OrNone(uint64_t value) {
  return value == kNone ? std::nullopt : std::optional(value);
}

}  // namespace

std::string EncodeAuditHeader(const AuditHeader& header) {
  Writer out;
  for (const uint64_t value :
       {uint64_t{kFormat}, uint64_t{header.semantics_version}, header.plan_fingerprint,
        header.data_fingerprint, static_cast<uint64_t>(header.rank),
        static_cast<uint64_t>(header.world), header.start_batch,
        header.expected_records.value_or(kNone), header.stream_batches.value_or(kNone),
        header.started_ns}) {
    out.Number(value);
  }
  return out.Finish(AuditBlockKind::kHeader);
}

std::optional<AuditHeader> DecodeAuditHeader(std::string_view payload) {
  Reader in(payload);
  if (in.Number() != kFormat) return std::nullopt;
  AuditHeader header;
  header.semantics_version = static_cast<uint32_t>(in.Number());
  header.plan_fingerprint = in.Number();
  header.data_fingerprint = in.Number();
  const uint64_t rank = in.Number();
  const uint64_t world = in.Number();
  header.start_batch = in.Number();
  header.expected_records = OrNone(in.Number());
  header.stream_batches = OrNone(in.Number());
  header.started_ns = in.Number();
  if (!in.done() || rank >= world || world > std::numeric_limits<int>::max()) return std::nullopt;
  header.rank = static_cast<int>(rank);
  header.world = static_cast<int>(world);
  return header;
}

std::string EncodeAuditBatch(const AuditBatch& batch) {
  Writer out;
  out.Number(batch.index);
  out.Number(batch.epoch);
  out.Number(batch.ends_epoch ? 1 : 0);
  out.Number(static_cast<uint64_t>(batch.first_global_row));
  out.Number(static_cast<uint64_t>(batch.num_rows));
  out.Number(static_cast<uint64_t>(batch.num_global_valid_rows));
  out.Number(batch.visits.size());
  AuditVisit before{-1, {batch.epoch, 0, 0}};
  for (const AuditVisit& visit : batch.visits) {
    out.Number(static_cast<uint64_t>(visit.row - before.row - 1));
    out.Difference(visit.id.epoch, before.id.epoch);
    out.Difference(visit.id.record, before.id.record);
    out.Number(visit.id.sub_index);
    before = visit;
  }
  out.Number(batch.replaced.size());
  for (const AuditReplaced& replaced : batch.replaced) {
    out.Number(static_cast<uint64_t>(replaced.row));
    out.Number(replaced.id.epoch);
    out.Number(replaced.id.record);
    out.Number(replaced.id.sub_index);
    out.Number(static_cast<uint64_t>(replaced.reason));
  }
  return out.Finish(AuditBlockKind::kBatch);
}

std::optional<AuditBatch> DecodeAuditBatch(std::string_view payload) {
  Reader in(payload);
  AuditBatch batch;
  batch.index = in.Number();
  batch.epoch = in.Number();
  batch.ends_epoch = in.Number() != 0;
  batch.first_global_row = in.Row();
  batch.num_rows = in.Row();
  batch.num_global_valid_rows = in.Row();
  batch.visits.resize(in.Count());
  AuditVisit before{-1, {batch.epoch, 0, 0}};
  for (AuditVisit& visit : batch.visits) {
    visit.row = before.row + 1 + in.Row();
    visit.id.epoch = in.Difference(before.id.epoch);
    visit.id.record = in.Difference(before.id.record);
    visit.id.sub_index = in.Number();
    before = visit;
    if (!in.ok() || visit.row >= batch.num_rows) return std::nullopt;
  }
  batch.replaced.resize(in.Count());
  for (AuditReplaced& replaced : batch.replaced) {
    replaced.row = in.Row();
    replaced.id = {in.Number(), in.Number(), in.Number()};
    replaced.reason = static_cast<RecordErrorReason>(in.Number());
    if (!in.ok() || replaced.row >= batch.num_rows) return std::nullopt;
  }
  return in.done() ? std::optional(std::move(batch)) : std::nullopt;
}

std::optional<uint64_t> DecodeAuditBatchIndex(std::string_view payload) {
  Reader in(payload);
  const uint64_t index = in.Number();
  return in.ok() ? std::optional(index) : std::nullopt;
}

std::string EncodeAuditEnd(const AuditEnd& end) {
  Writer out;
  out.Number(end.next_batch);
  out.Number(end.end_of_stream ? 1 : 0);
  return out.Finish(AuditBlockKind::kEnd);
}

std::optional<AuditEnd> DecodeAuditEnd(std::string_view payload) {
  Reader in(payload);
  AuditEnd end;
  end.next_batch = in.Number();
  end.end_of_stream = in.Number() != 0;
  return in.done() ? std::optional(end) : std::nullopt;
}

absl::StatusOr<AuditReader> AuditReader::Open(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(auto file, readers::OpenFile(path));
  return AuditReader(std::move(file));
}

absl::StatusOr<bool> AuditReader::OnlyZeros(uint64_t offset) const {
  std::vector<std::byte> window(64 << 10);
  while (offset < size()) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset, window));
    if (got == 0) return true;
    const auto read = std::span(window).first(got);
    if (std::ranges::any_of(read, [](std::byte b) { return b != std::byte{0}; })) return false;
    offset += got;
  }
  return true;
}

absl::StatusOr<AuditReader::Outcome> AuditReader::Read(uint64_t offset, AuditBlock& block) const {
  if (offset >= size()) return Outcome::kEnd;
  Frame frame = {};
  MILLRACE_ASSIGN_OR_RETURN(size_t got,
                            file_->ReadAt(offset, std::as_writable_bytes(std::span(&frame, 1))));
  const bool begins = std::memcmp(&frame, &kMagic, std::min(got, sizeof(kMagic))) == 0;
  if (!begins || (got == sizeof(frame) && frame.frame_checksum != FrameChecksum(frame))) {
    // A file system may have made the file longer before it lost the bytes.
    MILLRACE_ASSIGN_OR_RETURN(const bool zeros, OnlyZeros(offset));
    return zeros ? Outcome::kTorn : Outcome::kDamaged;
  }
  if (got < sizeof(frame) || frame.payload_bytes > size() - offset - sizeof(frame)) {
    return Outcome::kTorn;
  }
  block.payload.resize(frame.payload_bytes);
  MILLRACE_ASSIGN_OR_RETURN(
      got, file_->ReadAt(offset + sizeof(frame), std::as_writable_bytes(std::span(block.payload))));
  block.end = offset + sizeof(frame) + frame.payload_bytes;
  if (got == frame.payload_bytes &&
      XXH3_64bits(block.payload.data(), block.payload.size()) == frame.checksum) {
    block.kind = static_cast<AuditBlockKind>(frame.kind);
    return Outcome::kBlock;
  }
  return block.end == size() ? Outcome::kTorn : Outcome::kDamaged;
}

}  // namespace millrace::pipeline
