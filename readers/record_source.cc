#include "readers/record_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/block_cache.h"
#include "readers/byte_source.h"
#include "readers/index_cache.h"
#include "readers/index_memory.h"
#include "readers/record_index.h"
#include "readers/shard_files.h"
#include "readers/start_threads_internal.h"
#include "readers/tfrecord_format.h"
#include "xxhash.h"

// A number of a record in the source becomes a place in a file by one binary search over shards and
// one load from the shard's index. Nothing that an index says is believed when bytes are read:
// Unframe compares the frame with it and checks both CRCs, so a stale index that slipped through
// (same size, same time, other content) is an error at the record, not a wrong record.

namespace millrace::readers {
namespace {

constexpr uint64_t kShortRecordBytes = 1 << 10;
// Indexes that a thread fetches from the disk at once: two threads opened 1,000 shards in 169 ms, and
// in 255 ms where they fetched one by one.
constexpr size_t kFetchedAtOnce = 8;

struct Shard {
  std::shared_ptr<const RandomAccessFile> file;  // inflated; null: not opened yet
  RecordIndex index;
  uint64_t file_size = 0;  // as it lies on disk
  ShardStamp stamp;        // from before it was opened
  uint64_t lengths_digest = 0;
};

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
  Source(std::vector<std::string> files, std::vector<Shard> shards, size_t block_bytes,
         bool verify_crc)
      : files_(std::move(files)),
        shards_(std::move(shards)),
        memory_bytes_(block_bytes + IndexBytes(shards_)),
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
  const uint64_t memory_bytes_;
  const bool verify_crc_;
  const uint64_t fingerprint_;
  std::vector<uint64_t> first_record_;  // of each shard, and the number of all records
};

// Opens the shards of one source, several at a time: first those that are plain and have an index,
// without touching them; then, now that it is known how much is left to do, the others.
class Opener {
 public:
  Opener(const std::vector<std::string>& files, const RecordSourceOptions& options)
      : files_(files),
        options_(options),
        cache_(options.index_folder),
        open_files_(std::make_shared<OpenFiles>(OpenFiles::DefaultMaxOpen())),
        shards_(files.size()),
        statuses_(files.size()) {}

  absl::StatusOr<std::vector<Shard>> Run() {
    MILLRACE_RETURN_IF_ERROR(ForEachChunk(
        kFetchedAtOnce, files_.size(),
        [this](size_t first, size_t end, Place& place) { return Find(first, end, place); }));
    size_t num_left = 0;
    for (const Shard& shard : shards_) {
      total_bytes_ += static_cast<int64_t>(shard.stamp.file_size);
      if (shard.file == nullptr) ++num_left;
      if (shard.file != nullptr) Advance(shard.file_size, /*tell=*/false);
    }
    MILLRACE_RETURN_IF_ERROR(ForEachChunk(
        1, num_left, [this](size_t i, size_t, Place& place) { return Complete(i, place); }));
    KeepBlocks();
    return std::move(shards_);
  }

  // After Run: of the blocks of shards that are kept.
  size_t block_bytes() const { return block_bytes_; }

 private:
  // Where a thread puts what it makes of shards.
  struct Place {
    InflateSpool spool;
    std::shared_ptr<IndexMemory> memory = std::make_shared<IndexMemory>();
  };

  // Calls `work` for the first and the end of every `chunk` shards, on as many threads as may be of
  // use where `num_slow` shards take long. Shards are taken in order, so those before a failed one
  // are under way: the first error wins.
  template <typename Work>
  absl::Status ForEachChunk(size_t chunk, size_t num_slow, Work work) {
    next_.store(0, std::memory_order_relaxed);
    const auto take_shards = [&] {
      Place place;
      while (true) {
        const size_t first = next_.fetch_add(chunk, std::memory_order_relaxed);
        if (first >= files_.size()) return;
        statuses_[first] = work(first, std::min(first + chunk, files_.size()), place);
        if (!statuses_[first].ok()) next_.store(files_.size(), std::memory_order_relaxed);
      }
    };
    const size_t num_threads = std::clamp<size_t>(
        (num_slow + chunk - 1) / chunk, 1, static_cast<size_t>(std::max(options_.threads, 1)));
    std::vector<std::jthread> others = StartThreads(num_threads - 1, take_shards);
    take_shards();
    for (std::jthread& thread : others) thread.join();
    for (const absl::Status& status : statuses_) MILLRACE_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  // Takes stamps, and the indexes that there are of plain shards, fetched all at once.
  absl::Status Find(size_t first, size_t end, Place& place) {
    const bool may_be_plain =
        options_.compression == Compression::kAuto || options_.compression == Compression::kNone;
    std::array<std::optional<IndexCache::Opened>, kFetchedAtOnce> indexes;
    for (size_t i = first; i < end; ++i) {
      ShardStamp& stamp = shards_[i].stamp;
      MILLRACE_ASSIGN_OR_RETURN(stamp, StampOf(files_[i]));
      if (!may_be_plain) continue;
      indexes[i - first] = cache_.Open({files_[i], stamp, Compression::kNone, stamp.file_size});
    }
    for (size_t i = first; i < end; ++i) {
      const auto& opened = indexes[i - first];
      if (!opened.has_value()) continue;
      if (auto index = IndexCache::Read(*opened, place.memory)) UseIndex(i, *std::move(index));
    }
    return absl::OkStatus();
  }

  void UseIndex(size_t i, ShardIndex index) {
    Shard& shard = shards_[i];
    shard.index = std::move(index.records);
    shard.lengths_digest = index.lengths_digest;
    shard.file_size = shard.stamp.file_size;
    shard.file = open_files_->OpenLater(files_[i], shard.file_size);
  }

  absl::Status Complete(size_t i, Place& place) {
    Shard& shard = shards_[i];
    if (shard.file == nullptr) MILLRACE_RETURN_IF_ERROR(OpenShard(files_[i], place, shard));
    return CheckLengths(shard);
  }

  absl::Status OpenShard(const std::string& path, Place& place, Shard& shard) {
    MILLRACE_ASSIGN_OR_RETURN(shard.stamp, StampOf(path));  // others may have taken their time
    MILLRACE_ASSIGN_OR_RETURN(shard.file, open_files_->Open(path));
    shard.file_size = shard.file->size();
    Compression compression = options_.compression;
    if (compression == Compression::kAuto) {
      MILLRACE_ASSIGN_OR_RETURN(compression, DetectCompression(*shard.file));
    }
    const bool compressed = compression != Compression::kNone;
    if (compressed) MILLRACE_RETURN_IF_ERROR(Inflate(compression, place.spool, shard));
    bool walked = false;
    const auto build = [&]() -> absl::StatusOr<ShardIndex> {
      walked = true;
      std::vector<uint64_t> begins;
      MILLRACE_RETURN_IF_ERROR(WalkRecords(*shard.file, Walk(!compressed), begins));
      MILLRACE_ASSIGN_OR_RETURN(RecordIndex records, RecordIndex::Make(begins, place.memory));
      const uint64_t digest = records.LengthsDigest();
      return ShardIndex{std::move(records), digest};
    };
    MILLRACE_ASSIGN_OR_RETURN(
        ShardIndex index,
        cache_.FindOrBuild({path, shard.stamp, compression, shard.file->size()}, place.memory,
                           /*keep=*/options_.verify_crc, build));
    if (!walked && !compressed) Advance(shard.file_size, /*tell=*/false);
    shard.index = std::move(index.records);
    shard.lengths_digest = index.lengths_digest;
    return absl::OkStatus();
  }

  // Replaces shard.file by its inflated bytes.
  absl::Status Inflate(Compression compression, InflateSpool& spool, Shard& shard) {
    MILLRACE_ASSIGN_OR_RETURN(auto inflated, spool.Add(shard.file, compression));
    Advance(shard.file_size, /*tell=*/true);
    shard.file = std::move(inflated.file);
    if (inflated.damage.ok()) return absl::OkStatus();
    // What came before the damage says which record it hit, or has an earlier fault of its own.
    std::vector<uint64_t> before;
    const absl::Status walked = WalkRecords(*shard.file, Walk(/*plain=*/false), before);
    RecordError error = GetRecordError(inflated.damage).value_or(RecordError());
    if (const auto earlier = GetRecordError(walked)) {
      const bool only_cut = earlier->reason == RecordErrorReason::kTruncatedHeader ||
                            earlier->reason == RecordErrorReason::kTruncatedPayload;
      if (!only_cut) return walked;
    }
    error.offset = static_cast<int64_t>(before.back());
    error.ordinal = static_cast<int64_t>(before.size() - 1);
    absl::Status damage = Annotate(
        inflated.damage, absl::StrCat("record ", error.ordinal, " at offset ", error.offset));
    SetRecordError(damage, error);
    return damage;
  }

  WalkOptions Walk(bool plain) {
    WalkOptions walk;
    walk.plain = plain;
    walk.verify_crc = options_.verify_crc;
    walk.max_record_bytes = options_.max_record_bytes;
    if (plain) walk.advanced = [this](uint64_t bytes) { Advance(bytes, /*tell=*/true); };
    return walk;
  }

  // A kept index may have been made under a larger limit.
  absl::Status CheckLengths(const Shard& shard) const {
    if (shard.index.longest() <= options_.max_record_bytes) return absl::OkStatus();
    for (uint64_t i = 0; i < shard.index.num_records(); ++i) {
      if (shard.index.length(i) <= options_.max_record_bytes) continue;
      RecordError error;
      error.file = shard.file->path();
      error.offset = static_cast<int64_t>(shard.index.offset(i));
      error.ordinal = static_cast<int64_t>(i);
      error.reason = RecordErrorReason::kAbsurdLength;
      return MakeRecordError(absl::StatusCode::kDataLoss, error,
                             absl::StrCat("a record of ", shard.index.length(i),
                                          " bytes; the limit is ", options_.max_record_bytes));
    }
    return absl::OkStatus();
  }

  // Reads the shards through a cache, if the options say so and records are short.
  void KeepBlocks() {
    uint64_t records = 0;
    uint64_t bytes = 0;
    for (const Shard& shard : shards_) {
      records += shard.index.num_records();
      bytes += shard.index.framed_bytes();
    }
    if (options_.window_records == 0 || options_.cache_bytes == 0 || records == 0) return;
    const uint64_t mean_bytes = bytes / records;
    if (mean_bytes > kShortRecordBytes) return;
    // Of a shuffle's records two in a hundred lie farther back than four times its buffer.
    constexpr uint64_t kWindows = 4;
    const uint64_t window = std::min(options_.window_records, records);
    const auto blocks = std::make_shared<BlockCache>(
        std::min<uint64_t>(options_.cache_bytes, kWindows * window * mean_bytes));
    block_bytes_ = blocks->memory_bytes();
    for (size_t i = 0; i < shards_.size(); ++i) {
      shards_[i].file = blocks->Wrap(std::move(shards_[i].file), i);
    }
  }

  void Advance(uint64_t bytes, bool tell) {
    MutexLock lock(mu_);
    done_bytes_ += static_cast<int64_t>(bytes);
    if (tell && options_.progress) options_.progress(done_bytes_, total_bytes_);
  }

  const std::vector<std::string>& files_;
  const RecordSourceOptions& options_;
  const IndexCache cache_;
  const std::shared_ptr<OpenFiles> open_files_;
  int64_t total_bytes_ = 0;  // constant while shards are walked
  size_t block_bytes_ = 0;

  std::atomic<size_t> next_{0};  // among the opening threads; only its own value counts
  // Element i is written by the thread that took shard i, and read after the join.
  std::vector<Shard> shards_;
  std::vector<absl::Status> statuses_;

  Mutex mu_;
  int64_t done_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
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
  Opener opener(files, options);
  MILLRACE_ASSIGN_OR_RETURN(auto shards, opener.Run());
  return std::make_unique<Source>(std::move(files), std::move(shards), opener.block_bytes(),
                                  options.verify_crc);
}

}  // namespace millrace::readers
