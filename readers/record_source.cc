#include "readers/record_source.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/open_shards_internal.h"
#include "readers/tfrecord_format.h"
#include "xxhash.h"

// A number of a record in the source becomes a place in a file by one binary search over shards and
// one load from the shard's index. Nothing that an index says is believed when bytes are read:
// Unframe compares the frame with it and checks both CRCs, so a stale index that slipped through
// (same size, same time, other content) is an error at the record, not a wrong record.

namespace millrace::readers {
namespace {

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

uint64_t DigestOf(const std::vector<std::string>& files, const std::vector<Shard>& shards) {
  std::vector<std::byte> bytes;
  const auto append = [&bytes](uint64_t value) {
    bytes.resize(bytes.size() + sizeof value);
    StoreU64(value, bytes.data() + bytes.size() - sizeof value);
  };
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string_view name = BaseName(files[i]);
    const auto name_bytes = std::as_bytes(std::span(name));
    append(name.size());
    bytes.insert(bytes.end(), name_bytes.begin(), name_bytes.end());
    append(shards[i].file_size);
    append(shards[i].index.num_records());
    append(shards[i].lengths_digest);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t IndexBytes(const std::vector<Shard>& shards) {
  uint64_t bytes = 0;
  for (const Shard& shard : shards) bytes += shard.index.bytes().size();
  return bytes;
}

class Source : public RecordSource {
 public:
  Source(std::vector<std::string> files, OpenedShards opened, bool verify_crc)
      : files_(std::move(files)),
        shards_(std::move(opened.shards)),
        spans_(opened.spans),
        memory_bytes_(opened.block_bytes + IndexBytes(shards_)),
        verify_crc_(verify_crc),
        fingerprint_(DigestOf(files_, shards_)) {
    first_record_.reserve(shards_.size() + 1);
    first_record_.push_back(0);
    for (const Shard& shard : shards_) {
      first_record_.push_back(first_record_.back() + shard.index.num_records());
    }
  }

  uint64_t num_records() const override { return first_record_.back(); }
  const std::vector<std::string>& files() const override { return files_; }

  RecordRef Locate(uint64_t record) const override {
    RecordRef ref;
    ref.shard = ShardOf(record);
    ref.ordinal = record - first_record_[ref.shard];
    ref.offset = shards_[ref.shard].index.offset(ref.ordinal);
    ref.length = shards_[ref.shard].index.length(ref.ordinal);
    return ref;
  }

  void LocateAll(std::span<const SampleId> ids, std::span<RecordRef> refs,
                 std::span<size_t> starts) const override {
    // Two passes, so that the loads from the indexes, which miss every cache when the order is
    // random, are under way together.
    uint32_t shard = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint64_t record = ids[i].record;
      if (record < first_record_[shard] || record >= first_record_[shard + 1]) {
        shard = ShardOf(record);
      }
      refs[i].shard = shard;
      refs[i].ordinal = record - first_record_[shard];
      shards_[shard].index.Prefetch(refs[i].ordinal);
    }
    starts[0] = 0;
    for (size_t i = 0; i < refs.size(); ++i) {
      RecordRef& ref = refs[i];
      const RecordIndex& index = shards_[ref.shard].index;
      ref.offset = index.offset(ref.ordinal);
      ref.length = index.length(ref.ordinal);
      starts[i + 1] = starts[i] + ref.length + kFrameBytes;
    }
  }

  uint64_t memory_bytes() const override { return memory_bytes_; }
  std::optional<SpanFacts> spans() const override { return spans_; }

  const std::shared_ptr<const RandomAccessFile>& file(uint32_t shard) const override {
    return shards_[shard].file;
  }

  std::optional<ShardStamp> stamp(uint32_t shard) const override { return shards_[shard].stamp; }

  uint64_t FramedBytes(const RecordRef& ref) const override { return ref.length + kFrameBytes; }

  absl::StatusOr<std::string_view> Unframe(const RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    if (framed.size() < ref.length + kFrameBytes) {
      return Damage(ref, RecordErrorReason::kTruncatedPayload, "fewer bytes than the record has");
    }
    const FrameHeader header = DecodeHeader(framed.data());
    if (verify_crc_ && !header.crc_ok) {
      return Damage(ref, RecordErrorReason::kLengthCrc, "the CRC of the length does not match");
    }
    if (header.length != ref.length) {
      return Damage(ref, RecordErrorReason::kUnknown,
                    absl::StrCat("a record of ", header.length, " bytes where the index says ",
                                 ref.length, ": the shard changed after it was indexed"));
    }
    const auto payload = framed.subspan(kHeaderBytes, ref.length);
    if (verify_crc_ && !PayloadCrcOk(framed.subspan(kHeaderBytes, ref.length + kFooterBytes))) {
      return Damage(ref, RecordErrorReason::kDataCrc, "the CRC of the payload does not match");
    }
    return std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size());
  }

  size_t UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                    std::span<const size_t> starts,
                    std::span<std::string_view> payloads) const override {
    for (size_t i = 0; i < refs.size(); ++i) {
      const std::byte* const frame = framed + starts[i];
      if (starts[i + 1] - starts[i] < refs[i].length + kFrameBytes ||
          !FrameOk(frame, refs[i].length, verify_crc_)) {
        return i;
      }
      payloads[i] = {reinterpret_cast<const char*>(frame + kHeaderBytes), refs[i].length};
    }
    return refs.size();
  }

  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  uint32_t ShardOf(uint64_t record) const {
    const auto next = std::upper_bound(first_record_.begin(), first_record_.end(), record);
    return static_cast<uint32_t>(next - first_record_.begin() - 1);
  }

  absl::Status Damage(const RecordRef& ref, RecordErrorReason reason, std::string_view text) const {
    RecordError error;
    error.file = files_[ref.shard];
    error.offset = static_cast<int64_t>(ref.offset);
    error.ordinal = static_cast<int64_t>(ref.ordinal);
    error.reason = reason;
    return MakeRecordError(absl::StatusCode::kDataLoss, error, text);
  }

  // All constant after construction.
  const std::vector<std::string> files_;
  const std::vector<Shard> shards_;
  const std::optional<SpanFacts> spans_;
  const uint64_t memory_bytes_;
  const bool verify_crc_;
  const uint64_t fingerprint_;
  std::vector<uint64_t> first_record_;  // of each shard, and the number of all records
};

}  // namespace

void RecordSource::LocateAll(std::span<const SampleId> ids, std::span<RecordRef> refs,
                             std::span<size_t> starts) const {
  starts[0] = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    refs[i] = Locate(ids[i].record);
    starts[i + 1] = starts[i] + FramedBytes(refs[i]);
  }
}

size_t RecordSource::UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                                std::span<const size_t> starts,
                                std::span<std::string_view> payloads) const {
  for (size_t i = 0; i < refs.size(); ++i) {
    const auto payload = Unframe(refs[i], {framed + starts[i], FramedBytes(refs[i])});
    if (!payload.ok()) return i;
    payloads[i] = *payload;
  }
  return refs.size();
}

absl::StatusOr<std::unique_ptr<RecordSource>> RecordSource::Open(
    std::vector<std::string> files, const RecordSourceOptions& options) {
  if (files.empty()) return absl::InvalidArgumentError("a record source needs at least one file");
  if (files.size() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(files.size(), " files are too many"));
  }
  MILLRACE_ASSIGN_OR_RETURN(OpenedShards opened, OpenShards(files, options));
  return std::make_unique<Source>(std::move(files), std::move(opened), options.verify_crc);
}

}  // namespace millrace::readers
