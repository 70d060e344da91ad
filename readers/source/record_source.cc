#include "readers/record_source.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/damage/parts.h"
#include "readers/http/expected_reads.h"
#include "readers/http/file.h"
#include "readers/inflate/byte_source.h"
#include "readers/shard_stamp.h"
#include "readers/source/csv_header.h"
#include "readers/source/open_shards.h"
#include "xxhash.h"

// A number of a record in the source becomes a place in a file by one binary search over shards and
// one load from the shard's index. An index is not believed when bytes are read: the
// container compares the frame with it as far as its format allows (TFRecord checks both CRCs), so
// a stale index that slipped through (same size, same time, other content) is an error at the
// record.

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

// The names of `files` as messages may show them.
std::vector<std::string> ShownNames(std::vector<std::string> files) {
  for (std::string& file : files) {
    if (IsUrl(file)) file = ShownUrl(file);
  }
  return files;
}

uint64_t IndexBytes(const std::vector<Shard>& shards) {
  uint64_t bytes = 0;
  for (const Shard& shard : shards) {
    bytes += shard.index.memory_bytes() + shard.damaged.memory_bytes();
  }
  return bytes;
}

// A stretch whose first header is whole is no record of the length that lies there. Bytes that
// could not be inflated are the reason of all that they hit.
absl::Status DamagedStretch(const Shard& shard, const RecordRef& ref, uint64_t frame_bytes,
                            absl::Status status) {
  std::optional<RecordError> error = GetRecordError(status);
  if (!error.has_value()) return status;
  if (const LostBytes* lost = FindLost(shard.lost, ref.offset, ref.offset + frame_bytes)) {
    return ErrorAtRecord(lost->damage, *error);
  }
  if (error->reason != RecordErrorReason::kUnknown) return status;
  error->reason = RecordErrorReason::kDataCrc;
  return MakeRecordError(absl::StatusCode::kDataLoss, *error,
                         absl::StrCat("its header tells of another length than that of the ",
                                      frame_bytes, " bytes that lie here"));
}

// Returns the error of a record that a .idx lists. Where not even the payload is as the .idx says,
// the .idx is as likely wrong as the shard is damaged, and that is no damage of a record which a
// policy may pass over.
absl::Status ListedWrong(absl::Status status, const Shard& shard, const RecordRef& ref,
                         std::span<const std::byte> framed) {
  std::optional<RecordError> error = GetRecordError(status);
  const bool bad_length = error.has_value() && error->reason == RecordErrorReason::kLengthCrc;
  const bool other_length = error.has_value() && error->reason == RecordErrorReason::kUnknown;
  if (!bad_length && !other_length) return status;
  if (bad_length && !PayloadCrcOk(framed.subspan(kHeaderBytes, ref.length + kFooterBytes))) {
    error->reason = RecordErrorReason::kUnknown;
    SetRecordError(status, *error);
  }
  return Annotate(status, absl::StrCat(shard.dali_index, ":", ref.ordinal + 1, ": a record of ",
                                       ref.length, " bytes is listed here"));
}

class Source : public RecordSource {
 public:
  Source(std::vector<std::string> files, std::unique_ptr<const Container> container,
         OpenedShards opened, std::vector<CellOrder> cell_orders)
      : files_(std::move(files)),
        container_(std::move(container)),
        overhead_bytes_(container_->format().overhead_bytes),
        shards_(std::move(opened.shards)),
        cell_orders_(std::move(cell_orders)),
        spans_(opened.spans),
        fetches_(opened.fetches),
        http_(std::move(opened.http)),
        memory_bytes_(opened.block_bytes + IndexBytes(shards_)),
        has_damaged_parts_(std::ranges::any_of(
            shards_, [](const Shard& shard) { return !shard.damaged.empty(); })),
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
    const uint64_t overhead_bytes = overhead_bytes_;
    for (size_t i = 0; i < refs.size(); ++i) {
      RecordRef& ref = refs[i];
      const RecordIndex& index = shards_[ref.shard].index;
      ref.offset = index.offset(ref.ordinal);
      ref.length = index.length(ref.ordinal);
      starts[i + 1] = starts[i] + ref.length + overhead_bytes;
    }
  }

  bool has_cell_orders() const override { return !cell_orders_.empty(); }
  std::span<const int64_t> CellsOf(uint32_t shard) const override {
    if (cell_orders_.empty()) return {};
    return cell_orders_[shard];
  }
  uint64_t memory_bytes() const override { return memory_bytes_; }
  std::optional<SpanFacts> spans() const override { return spans_; }
  size_t gap_bytes() const override {
    return fetches_.has_value() && fetches_->single ? ExpectedReads::kGapBytes
                                                    : RecordSource::gap_bytes();
  }

  void Expect(uint64_t group, std::span<const RecordRef> refs) const override {
    if (http_ == nullptr) return;
    std::vector<ExpectedReads::Piece> pieces;
    for (const RecordRef& ref : refs) {
      const FetchedFile* const file = shards_[ref.shard].fetched;
      if (file != nullptr) pieces.push_back({file, ref.offset, FramedBytes(ref)});
    }
    http_->expected().Expect(group, pieces);
  }
  void Forget(uint64_t group) const override {
    if (http_ != nullptr) http_->expected().Forget(group);
  }
  void KeepExpected(uint64_t bytes) const override {
    if (http_ != nullptr) http_->expected().SetLimit(bytes);
  }
  std::optional<FetchFacts> fetches() const override { return fetches_; }
  uint64_t fetched_bytes() const override { return http_ == nullptr ? 0 : http_->fetched_bytes(); }

  std::shared_ptr<const RandomAccessFile> file(uint32_t shard) const override {
    return shards_[shard].file;
  }

  std::optional<ShardStamp> stamp(uint32_t shard) const override { return shards_[shard].stamp; }

  uint64_t FramedBytes(const RecordRef& ref) const override { return ref.length + overhead_bytes_; }

  absl::StatusOr<std::string_view> Unframe(const RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    const Shard& shard = shards_[ref.shard];
    if (IsDamagedPart(ref)) return shard.damaged.At(files_[ref.shard], ref);
    auto payload = container_->Unframe(files_[ref.shard], ref, framed);
    if (payload.ok()) return payload;
    if (shard.resynced) return DamagedStretch(shard, ref, FramedBytes(ref), payload.status());
    if (!shard.dali_index.empty()) return ListedWrong(payload.status(), shard, ref, framed);
    return payload;
  }

  size_t UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                    std::span<const size_t> starts,
                    std::span<std::string_view> payloads) const override {
    if (has_damaged_parts_) {
      const auto damaged =
          std::ranges::find_if(refs, [this](const RecordRef& ref) { return IsDamagedPart(ref); });
      refs = refs.first(static_cast<size_t>(damaged - refs.begin()));
    }
    return container_->UnframeAll(refs, framed, starts, payloads);
  }

  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  bool IsDamagedPart(const RecordRef& ref) const {
    return has_damaged_parts_ && shards_[ref.shard].damaged.Contains(ref.ordinal);
  }

  uint32_t ShardOf(uint64_t record) const {
    const auto next = std::upper_bound(first_record_.begin(), first_record_.end(), record);
    return static_cast<uint32_t>(next - first_record_.begin() - 1);
  }

  // All constant after construction.
  const std::vector<std::string> files_;
  const std::unique_ptr<const Container> container_;
  const uint64_t overhead_bytes_;  // of a frame, beyond RecordRef::length
  const std::vector<Shard> shards_;
  const std::vector<CellOrder> cell_orders_;  // of each shard; none: all are as they were asked for
  const std::optional<SpanFacts> spans_;
  const std::optional<FetchFacts> fetches_;
  const std::shared_ptr<HttpFiles> http_;  // null: no file is a URL
  const uint64_t memory_bytes_;
  const bool has_damaged_parts_;
  const uint64_t fingerprint_;
  std::vector<uint64_t> first_record_;  // of each shard, and the number of all records
};

absl::Status CheckDaliIndex(const std::vector<std::string>& files,
                            const RecordSourceOptions& options) {
  const auto bad = [](auto&&... text) {
    return absl::InvalidArgumentError(absl::StrCat("dali_index: ", text...));
  };
  if (options.dali_index.size() != files.size()) {
    return bad(options.dali_index.size(), " index files for ", files.size(),
               " files; each needs its own");
  }
  if (options.container.kind != ContainerKind::kTfRecord) return bad("of TFRecord files only");
  if (!options.verify_crc) return bad("nothing vouches for it where checksums are not checked");
  return absl::OkStatus();
}

// Of a file whose row of names is lost: an error if columns are told by their names, since the rows
// behind the damage could be taken in a wrong order; else no names.
absl::StatusOr<std::vector<std::string>> LostHeader(const std::string& file,
                                                    const RecordSourceOptions& options) {
  if (options.ignore_header_names || options.columns.names.empty()) {
    return std::vector<std::string>();
  }
  return absl::DataLossError(absl::StrCat(
      file,
      ": header: the row that names the columns is lost to damage, so that it is not known "
      "which column is which; ignore_header_names takes them by their places"));
}

absl::StatusOr<std::vector<CellOrder>> MatchHeaders(const std::vector<std::string>& files,
                                                    const std::vector<Shard>& shards,
                                                    const RecordSourceOptions& options) {
  if (!options.container.has_header) return std::vector<CellOrder>();
  WalkOptions walk;
  walk.plain = false;
  const auto read = [&](size_t i) -> absl::StatusOr<std::vector<std::string>> {
    MILLRACE_RETURN_IF_ERROR(CheckGoesOn(options.cancels, "reading the files was cancelled"));
    const Shard& shard = shards[i];
    if (!shard.lost.empty() && shard.lost.front().begin == 0) return LostHeader(files[i], options);
    const absl::Status begin = BeginOfText(*shard.file, walk, options.container).status();
    // A begin that is none of text is told by the file's records.
    if (GetRecordError(begin).has_value()) return std::vector<std::string>();
    MILLRACE_RETURN_IF_ERROR(begin);
    return ReadCsvHeader(*shard.file, options.container.delimiter);
  };
  if (!options.ignore_header_names) {
    return MatchHeaders(files, options.columns, options.threads, read);
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].index.num_records() == 0) MILLRACE_RETURN_IF_ERROR(read(i).status());
  }
  return std::vector<CellOrder>();
}

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
  if (!options.dali_index.empty()) MILLRACE_RETURN_IF_ERROR(CheckDaliIndex(files, options));
  auto container = MakeContainer(options.container, options.verify_crc,
                                 /*judges_rows=*/options.resync);
  MILLRACE_ASSIGN_OR_RETURN(OpenedShards opened, OpenShards(files, *container, options));
  files = ShownNames(std::move(files));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<CellOrder> cell_orders,
                            MatchHeaders(files, opened.shards, options));
  return std::make_unique<Source>(std::move(files), std::move(container), std::move(opened),
                                  std::move(cell_orders));
}

}  // namespace millrace::readers
