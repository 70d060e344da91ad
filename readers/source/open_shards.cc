#include "readers/source/open_shards.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/container/detect.h"
#include "readers/container/index_memory.h"
#include "readers/dali_index.h"
#include "readers/damage/compressed.h"
#include "readers/damage/parts.h"
#include "readers/damage/tfrecord.h"
#include "readers/file/block_cache.h"
#include "readers/file/cancellable_file.h"
#include "readers/file/index_key.h"
#include "readers/http/file.h"
#include "readers/http/open_files.h"
#include "readers/inflate/access_points.h"
#include "readers/inflate/byte_source.h"
#include "readers/inflate/inflated_file.h"
#include "readers/inflate/pass.h"
#include "readers/inflate/span_cache.h"
#include "readers/inflate/spool.h"
#include "readers/open_file.h"
#include "readers/parallel/parallel.h"
#include "readers/shard_stamp.h"
#include "readers/source/dali_index.h"
#include "readers/source/index_cache.h"

namespace millrace::readers {
namespace {

constexpr uint64_t kShortRecordBytes = 1 << 10;
// Indexes that a thread fetches from the disk at once: two threads opened 1,000 shards in 169 ms,
// and in 255 ms where they fetched one by one.
constexpr size_t kMostFetchedIndexes = 8;
// Of fewer shards the calling thread finds the indexes alone, sooner than oneTBB has started.
constexpr size_t kLeastToFindTogether = 64;
// Inflated spans that are kept: of 15 shards that are read side by side, and of a shuffle that
// fits.
constexpr uint64_t kSpanCacheBytes = 64 << 20;

// Opens the shards of one source, several at a time: first those that are plain and have an index,
// without touching them; then, now that it is known how much is left to do, the others.
class Opener {
 public:
  Opener(const std::vector<std::string>& files, const Container& container,
         const RecordSourceOptions& options)
      : files_(files),
        container_(container),
        options_(options),
        cache_(options.index_folder, options.cancels),
        open_files_(std::make_shared<OpenFiles>(OpenFiles::DefaultMaxOpen(), options.access)),
        spans_(std::make_shared<SpanCache>(kSpanCacheBytes)),
        urls_(files.size()),
        index_urls_(options.dali_index.size()),
        shards_(files.size()) {}

  absl::StatusOr<OpenedShards> Run() {
    MILLRACE_RETURN_IF_ERROR(OpenUrls());
    const size_t num_slow = files_.size() < kLeastToFindTogether ? 1 : files_.size();
    MILLRACE_RETURN_IF_ERROR(ForEachChunk(
        NumFetched(), num_slow,
        [this](size_t first, size_t end, Place& place) { return Find(first, end, place); }));
    size_t num_left = 0;
    for (const Shard& shard : shards_) {
      total_bytes_ += static_cast<int64_t>(shard.stamp.file_size);
      if (shard.file == nullptr) ++num_left;
      if (shard.file != nullptr) Advance(shard.file_size, /*tell=*/false);
    }
    MILLRACE_RETURN_IF_ERROR(ForEachChunk(
        1, num_left, [this](size_t i, size_t, Place& place) { return Complete(i, place); }));
    const std::optional<SpanFacts> spans = KeepSpans();
    const std::optional<FetchFacts> fetches = ChooseFetches();
    const size_t block_bytes =
        KeepBlocks() + SpanMemory(spans) + (http_ == nullptr ? 0 : http_->memory_bytes());
    if (http_ != nullptr) http_->ForgetFetched();
    return OpenedShards{std::move(shards_), spans, fetches, http_, block_bytes};
  }

 private:
  // Indexes that each thread holds open at once: all threads together take no more descriptors than
  // the shards may later.
  size_t NumFetched() const {
    const auto threads = static_cast<size_t>(std::max(options_.threads, 1));
    return std::clamp<size_t>(OpenFiles::DefaultMaxOpen() / threads, 1, kMostFetchedIndexes);
  }

  // Opens the files that are URLs, all at once.
  absl::Status OpenUrls() {
    std::vector<std::string> urls;
    std::ranges::copy_if(files_, std::back_inserter(urls), IsUrl);
    std::ranges::copy_if(options_.dali_index, std::back_inserter(urls), IsUrl);
    if (urls.empty()) return absl::OkStatus();
    HttpOptions http = options_.http;
    if (options_.cache_bytes > 0)
      http.cache_bytes = std::min(http.cache_bytes, options_.cache_bytes);
    MILLRACE_ASSIGN_OR_RETURN(http_, HttpFiles::Make(http, options_.cancels));
    MILLRACE_ASSIGN_OR_RETURN(std::vector<HttpFiles::Opened> opened, http_->Open(urls));
    auto next = opened.begin();
    const auto take = [&next](const std::vector<std::string>& names,
                              std::vector<HttpFiles::Opened>& files) {
      for (size_t i = 0; i < names.size(); ++i) {
        if (IsUrl(names[i])) files[i] = std::move(*next++);
      }
    };
    take(files_, urls_);
    take(options_.dali_index, index_urls_);
    return absl::OkStatus();
  }

  absl::Status CheckGoesOn() const {
    return millrace::CheckGoesOn(options_.cancels, "reading the files was cancelled");
  }
  // The bytes of a file for work that goes through all of them.
  std::shared_ptr<const RandomAccessFile> Cancellable(
      std::shared_ptr<const RandomAccessFile> file) const {
    return MakeCancellable(std::move(file), options_.cancels);
  }

  absl::StatusOr<ShardStamp> StampOfShard(size_t i) const {
    if (urls_[i].file != nullptr) return urls_[i].stamp;
    return StampOf(files_[i]);
  }

  absl::StatusOr<std::shared_ptr<const RandomAccessFile>> OpenFileOf(size_t i) {
    if (urls_[i].file != nullptr) return urls_[i].file;
    return open_files_->Open(files_[i]);
  }

  // Where one thread puts what it makes of shards.
  struct Place {
    InflateSpool spool;
    std::shared_ptr<IndexMemory> memory = std::make_shared<IndexMemory>();
  };

  // Calls `work` for the first and the end of every `chunk` shards, on as many threads as may be of
  // use where `num_slow` shards take long. The error of the first shard that has one wins.
  template <typename Work>
  absl::Status ForEachChunk(size_t chunk, size_t num_slow, Work work) {
    const size_t num_threads = std::clamp<size_t>(
        (num_slow + chunk - 1) / chunk, 1, static_cast<size_t>(std::max(options_.threads, 1)));
    std::vector<Place> places(num_threads);
    const size_t num_chunks = (files_.size() + chunk - 1) / chunk;
    return ParallelFor(num_chunks, static_cast<int>(num_threads), [&](size_t i, size_t slot) {
      const absl::Status status = CheckGoesOn();
      if (!status.ok()) return status;
      return work(i * chunk, std::min((i + 1) * chunk, files_.size()), places[slot]);
    });
  }

  // Takes stamps, and the indexes that there are of plain shards, fetched all at once.
  absl::Status Find(size_t first, size_t end, Place& place) {
    const bool may_be_plain =
        options_.compression == Compression::kAuto || options_.compression == Compression::kNone;
    std::array<std::optional<IndexCache::Opened>, kMostFetchedIndexes> indexes;
    for (size_t i = first; i < end; ++i) {
      ShardStamp& stamp = shards_[i].stamp;
      MILLRACE_ASSIGN_OR_RETURN(stamp, StampOfShard(i));
      if (!may_be_plain || container_.is_regular() || !options_.dali_index.empty()) continue;
      indexes[i - first] =
          cache_.Open({files_[i], stamp, Compression::kNone, container_.format(), stamp.file_size});
    }
    for (size_t i = first; i < end; ++i) {
      const auto& opened = indexes[i - first];
      if (!opened.has_value()) continue;
      auto index = IndexCache::Read(*opened, place.memory);
      if (index.has_value() && !IsOverLimit(*index)) UseIndex(i, *std::move(index));
    }
    return absl::OkStatus();
  }

  // Whether a kept index was made under a larger limit: what goes on behind damage makes its own
  // then, so that what it delivers is the same with and without a kept one.
  bool IsOverLimit(const ShardIndex& index) const {
    return resyncs() && index.records.longest() > options_.max_record_bytes;
  }

  void UseIndex(size_t i, ShardIndex index) {
    Shard& shard = shards_[i];
    shard.index = std::move(index.records);
    shard.lengths_digest = index.lengths_digest;
    shard.file_size = shard.stamp.file_size;
    shard.file = urls_[i].file;
    if (shard.file == nullptr) shard.file = open_files_->OpenLater(files_[i], shard.file_size);
  }

  absl::Status Complete(size_t i, Place& place) {
    Shard& shard = shards_[i];
    if (shard.file == nullptr) MILLRACE_RETURN_IF_ERROR(OpenShard(i, place, shard));
    return CheckLengths(shard);
  }

  absl::Status OpenShard(size_t i, Place& place, Shard& shard) {
    const std::string& path = files_[i];
    MILLRACE_ASSIGN_OR_RETURN(shard.stamp, StampOfShard(i));  // others may have taken their time
    MILLRACE_ASSIGN_OR_RETURN(shard.file, OpenFileOf(i));
    shard.file_size = shard.file->size();
    Compression compression = options_.compression;
    if (compression == Compression::kAuto) {
      MILLRACE_ASSIGN_OR_RETURN(compression, DetectCompression(*shard.file, container_));
    }
    if (!options_.dali_index.empty()) return UseDaliIndex(i, compression, place, shard);
    const bool compressed = compression != Compression::kNone;
    std::optional<RecordIndex> frames;  // of a shard that was inflated just now, if all is well
    if (compressed) MILLRACE_RETURN_IF_ERROR(Enter(path, compression, place, shard, frames));
    std::optional<ResyncedParts> judged;  // of a shard of which not all rows are good
    bool walked = false;
    const auto build = [&]() -> absl::StatusOr<ShardIndex> {
      walked = !container_.is_regular();
      if (judges_rows()) return BuildOfGoodRows(compression, place, shard, judged);
      if (!frames.has_value()) {
        MILLRACE_ASSIGN_OR_RETURN(frames, container_.FindFrames(*Cancellable(shard.file),
                                                                Walk(!compressed), place.memory));
      }
      return WithDigest(*std::move(frames));
    };
    const auto find_or_build = [&] {
      if (container_.is_regular()) return build();
      auto found = cache_.FindOrBuild(
          {path, shard.stamp, compression, container_.format(), shard.file->size()}, place.memory,
          /*keep=*/options_.verify_crc, build);
      return found.ok() && IsOverLimit(*found) ? build() : std::move(found);
    };
    absl::StatusOr<ShardIndex> index =
        shard.lost.empty() ? find_or_build() : Resync(compression, place, shard);
    if (judged.has_value()) {
      index = WithDamage(*std::move(judged), shard);
    } else if (MayResync(index.status())) {
      index = Resync(compression, place, shard);
    }
    if (!index.ok()) return index.status();
    if (!walked && !compressed) Advance(shard.file_size, /*tell=*/false);
    shard.index = std::move(index->records);
    shard.lengths_digest = index->lengths_digest;
    return absl::OkStatus();
  }

  static ShardIndex WithDigest(RecordIndex records) {
    const uint64_t digest = records.LengthsDigest();
    return ShardIndex{std::move(records), digest};
  }

  bool is_tfrecord() const { return options_.container.kind == ContainerKind::kTfRecord; }
  // Records of TFRecord are told from noise by their CRCs.
  bool resyncs() const { return options_.resync && (options_.verify_crc || !is_tfrecord()); }
  // A quote that is lost or made up takes rows along without an end of the file that tells.
  bool judges_rows() const { return resyncs() && options_.container.kind == ContainerKind::kCsv; }

  absl::Status UseDaliIndex(size_t i, Compression compression, Place& place, Shard& shard) {
    std::shared_ptr<const RandomAccessFile> file = index_urls_[i].file;
    if (file == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(file, OpenFile(options_.dali_index[i]));
    }
    shard.dali_index = file->path();
    if (compression != Compression::kNone) {
      return absl::InvalidArgumentError(absl::StrCat(shard.dali_index, ": ", shard.file->path(),
                                                     " is compressed, and cannot have a .idx"));
    }
    MILLRACE_ASSIGN_OR_RETURN(ShardIndex index,
                              ReadDaliIndex(*Cancellable(file), shard.file_size,
                                            options_.max_record_bytes, place.memory));
    shard.index = std::move(index.records);
    shard.lengths_digest = index.lengths_digest;
    Advance(shard.file_size, /*tell=*/false);
    return absl::OkStatus();
  }

  bool MayResync(const absl::Status& status) const {
    const std::optional<RecordError> error = GetRecordError(status);
    return resyncs() && error.has_value() && error->reason != RecordErrorReason::kWrongCompression;
  }

  static ShardIndex WithDamage(ResyncedParts parts, Shard& shard) {
    shard.damaged = std::move(parts.damaged);
    return WithDigest(std::move(parts.records));
  }

  // Returns the records that are left of a damaged shard. Their index is not kept: without resync
  // there is no index of such a file.
  absl::StatusOr<ShardIndex> Resync(Compression compression, Place& place, Shard& shard) {
    if (!is_tfrecord()) {
      MILLRACE_ASSIGN_OR_RETURN(ResyncedParts parts, Parts(compression, place, shard, {}));
      return WithDamage(std::move(parts), shard);
    }
    shard.resynced = true;
    std::vector<uint64_t> begins;
    MILLRACE_RETURN_IF_ERROR(
        ResyncRecords(*Cancellable(shard.file), options_.max_record_bytes, begins));
    MILLRACE_ASSIGN_OR_RETURN(RecordIndex records,
                              RecordIndex::Make(begins, container_.format(), place.memory));
    return WithDigest(std::move(records));
  }

  absl::StatusOr<ResyncedParts> Parts(Compression compression, Place& place, const Shard& shard,
                                      const std::function<void(uint64_t)>& advanced) const {
    const InflatedShard parts = {
        .file = Cancellable(shard.file), .compression = compression, .lost = shard.lost};
    return ResyncParts(parts, options_.container, container_.format(), options_.max_record_bytes,
                       place.memory, advanced);
  }

  // DATA_LOSS  with RecordError: not all rows are good, so that the index is not one to be kept;
  //            the records that are left of the shard are in `judged`
  absl::StatusOr<ShardIndex> BuildOfGoodRows(Compression compression, Place& place,
                                             const Shard& shard,
                                             std::optional<ResyncedParts>& judged) {
    const WalkOptions walk = Walk(compression == Compression::kNone);
    MILLRACE_RETURN_IF_ERROR(CheckPlain(*shard.file, walk));
    MILLRACE_ASSIGN_OR_RETURN(ResyncedParts parts, Parts(compression, place, shard, walk.advanced));
    if (parts.damaged.empty()) return WithDigest(std::move(parts.records));
    judged = std::move(parts);
    RecordError error;
    error.file = shard.file->path();
    error.reason = RecordErrorReason::kExample;
    return MakeRecordError(absl::StatusCode::kDataLoss, error, "not all of its rows are good");
  }

  // The key contains the distance of the points, so that points at another distance are kept apart.
  IndexedShard PointsOf(const std::string& path, Compression compression,
                        const Shard& shard) const {
    return {.path = path,
            .stamp = shard.stamp,
            .compression = compression,
            .format = {.key = options_.span_bytes}};
  }

  // Replaces shard.file by its inflated bytes, which can be read anywhere. When they had to be
  // inflated for that, `frames` become those of the records, unless their framing is damaged.
  absl::Status Enter(const std::string& path, Compression compression, Place& place, Shard& shard,
                     std::optional<RecordIndex>& frames) {
    uint64_t told = 0;
    const auto open = [&](const std::string& name) { return open_files_->Open(name); };
    const auto make = [&](const IndexKey& key) {
      return InflateAndWalk(compression, shard, key, place, frames, told);
    };
    auto points = cache_.FindOrMakePoints(PointsOf(path, compression, shard), open, make);
    Advance(shard.file_size - told, /*tell=*/false);
    MILLRACE_RETURN_IF_ERROR(CheckGoesOn());
    if (!points.ok()) {  // damage, which has to be told exactly, or deflate blocks without end
      frames.reset();
      return Inflate(compression, place, shard);
    }
    if (frames.has_value() && frames->end() != points->out_bytes) frames.reset();
    shard.point_bytes = points->memory_bytes();
    shard.num_spans = points->spans.size();
    shard.file = MakeInflatedFile(std::move(shard.file), *std::move(points), spans_);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::byte>> InflateAndWalk(Compression compression, const Shard& shard,
                                                        const IndexKey& key, Place& place,
                                                        std::optional<RecordIndex>& frames,
                                                        uint64_t& told) {
    InflatePassOptions options;
    if (options_.span_bytes > 0) options.span_bytes = options_.span_bytes;
    options.advanced = [&](uint64_t bytes) {
      told += bytes;
      Advance(bytes, /*tell=*/true);
    };
    InflatePass pass(Cancellable(shard.file), compression, std::move(options));
    // Errors are found again later: here the end is not known before it is reached.
    if (!container_.is_regular()) {
      auto found = container_.FindFrames(pass, Walk(/*plain=*/false), place.memory);
      if (found.ok()) frames = *std::move(found);
    }
    return pass.Finish(key);
  }

  absl::StatusOr<InflateSpool::Inflated> Spool(Compression compression, Place& place,
                                               const Shard& shard) {
    std::shared_ptr<const RandomAccessFile> file = Cancellable(shard.file);
    if (resyncs()) return place.spool.Add(MakeResyncSource(std::move(file), compression));
    MILLRACE_ASSIGN_OR_RETURN(auto source, MakeByteSource(std::move(file), compression));
    return place.spool.Add(std::move(source));
  }

  // Replaces shard.file by its inflated bytes in a temporary file, of a damaged shard by what can
  // be had of them if the options say so.
  absl::Status Inflate(Compression compression, Place& place, Shard& shard) {
    MILLRACE_ASSIGN_OR_RETURN(auto inflated, Spool(compression, place, shard));
    shard.file = std::move(inflated.file);
    shard.lost = std::move(inflated.lost);
    if (inflated.damage.ok()) return absl::OkStatus();
    return is_tfrecord() ? DamagedFrame(inflated.damage, place, shard)
                         : FirstDamage(inflated.damage, compression, shard);
  }

  // The first damage of a stream that ends with `damage`, as `records verify` tells it.
  absl::Status FirstDamage(const absl::Status& damage, Compression compression,
                           const Shard& shard) const {
    InflatedShard inflated = {.file = Cancellable(shard.file), .compression = compression};
    inflated.lost.push_back({.begin = shard.file->size(), .bytes = 0, .damage = damage});
    absl::Status first;
    const absl::Status walked = WalkParts(inflated, options_.container, options_.max_record_bytes,
                                          [&](const ShardPart& part) {
                                            first = part.damage;
                                            return first;
                                          });
    return first.ok() ? walked : first;
  }

  // The record of a TFRecord stream that its damage hit. The bytes before that may have an earlier
  // fault of their own.
  absl::Status DamagedFrame(const absl::Status& damage, Place& place, const Shard& shard) {
    const auto before =
        container_.FindFrames(*Cancellable(shard.file), Walk(/*plain=*/false), place.memory);
    RecordError error;
    error.file = shard.file->path();
    if (before.ok()) {
      error.offset = static_cast<int64_t>(before->end());
      error.ordinal = static_cast<int64_t>(before->num_records());
    } else if (const auto earlier = GetRecordError(before.status())) {
      const bool only_cut = earlier->reason == RecordErrorReason::kTruncatedHeader ||
                            earlier->reason == RecordErrorReason::kTruncatedPayload;
      if (!only_cut) return before.status();
      error.offset = earlier->offset;
      error.ordinal = earlier->ordinal;
    }
    return ErrorAtRecord(damage, error);
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

  // Bytes that an order that jumps about may want again soon, as far as cache_bytes go.
  uint64_t WindowBytes(uint64_t records, uint64_t bytes) const {
    // Of a shuffle's records two in a hundred lie farther back than four times its buffer.
    constexpr uint64_t kWindows = 4;
    if (records == 0) return 0;
    const uint64_t window = std::min(options_.window_records, records);
    return std::min<uint64_t>(options_.cache_bytes, kWindows * window * (bytes / records));
  }

  // Lets as many inflated spans be kept as the order has use for. Nullopt: there are none.
  std::optional<SpanFacts> KeepSpans() {
    SpanFacts facts;
    uint64_t records = 0;
    uint64_t num_spans = 0;
    for (const Shard& shard : shards_) {
      if (shard.num_spans == 0) continue;
      records += shard.index.num_records();
      facts.bytes += shard.index.end();
      num_spans += shard.num_spans;
    }
    if (num_spans == 0) return std::nullopt;
    facts.span_bytes = facts.bytes / num_spans;
    facts.kept_bytes = std::max({kSpanCacheBytes, WindowBytes(records, facts.bytes),
                                 std::min<uint64_t>(options_.window_bytes, options_.cache_bytes)});
    facts.most_kept_bytes = std::max<uint64_t>(kSpanCacheBytes, options_.cache_bytes);
    spans_->SetLimits(facts.kept_bytes,
                      /*drop_behind=*/options_.window_records == 0 && options_.window_bytes == 0);
    return facts;
  }

  // The memory that inflated spans and access points take.
  uint64_t SpanMemory(const std::optional<SpanFacts>& facts) const {
    uint64_t bytes = facts.has_value() ? std::min(facts->kept_bytes, facts->bytes) : 0;
    for (const Shard& shard : shards_) bytes += shard.point_bytes;
    return bytes;
  }

  // Says how plain shards behind URLs are read.
  std::optional<FetchFacts> ChooseFetches() {
    std::vector<Shard*> plain;
    uint64_t records = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (urls_[i].file == nullptr || shards_[i].file != urls_[i].file) continue;
      plain.push_back(&shards_[i]);
      records += shards_[i].index.num_records();
      bytes += shards_[i].index.end();
    }
    if (plain.empty()) return std::nullopt;
    FetchFacts facts{.block_bytes = http_->block_bytes(), .kept_bytes = http_->memory_bytes()};
    const double record = static_cast<double>(std::max<uint64_t>(bytes, 1)) /
                          static_cast<double>(std::max<uint64_t>(records, 1));
    facts.single = JumpsTooFar(records, record, facts) || LeavesOutTooMuch(record, facts);
    if (!facts.single) return facts;
    for (Shard* const shard : plain) {
      shard->fetched = HttpFiles::FetchSingly(*shard->file, options_.fetch_order.place_records);
    }
    http_->DropBlocks();
    return facts;
  }

  // True if blocks would go before all of them was read. Of a shuffle's records one in exp(12) lies
  // farther back than 12 times its buffer; a file needs a block, and the next.
  bool JumpsTooFar(uint64_t records, double record_bytes, const FetchFacts& facts) const {
    constexpr double kWindows = 12;
    constexpr uint64_t kBlocksOfFile = 2;
    const FetchOrder& order = options_.fetch_order;
    if (order.window_records == UINT64_MAX) return true;
    const auto window = static_cast<double>(std::min(order.window_records, records));
    if (kWindows * window * record_bytes > static_cast<double>(facts.kept_bytes)) return true;
    const uint64_t files = std::min<uint64_t>(order.files, shards_.size());
    return files > 1 && files * kBlocksOfFile * facts.block_bytes > facts.kept_bytes;
  }

  // True if blocks cost too many bytes for those of the records that are read, and what is read in
  // one place is worth a request.
  bool LeavesOutTooMuch(double record_bytes, const FetchFacts& facts) const {
    constexpr double kLeastPlaceBytes = 4 << 10;
    const double place = record_bytes * static_cast<double>(options_.fetch_order.place_records);
    const double stride = record_bytes * static_cast<double>(options_.fetch_order.stride_records);
    const double touched = std::min(stride, place + static_cast<double>(facts.block_bytes));
    return touched > kMostFetched * place && place >= kLeastPlaceBytes;
  }

  // Reads the shards through a cache, if the options say so and records are short. Returns the
  // memory that it takes.
  size_t KeepBlocks() {
    uint64_t records = 0;
    uint64_t bytes = 0;
    for (const Shard& shard : shards_) {
      records += shard.index.num_records();
      bytes += shard.index.end();
    }
    if (options_.window_records == 0 || options_.cache_bytes == 0 || records == 0) return 0;
    if (bytes / records > kShortRecordBytes) return 0;
    const auto blocks = std::make_shared<BlockCache>(WindowBytes(records, bytes));
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].fetched != nullptr) continue;
      shards_[i].file = blocks->Wrap(std::move(shards_[i].file), i);
    }
    return blocks->memory_bytes();
  }

  void Advance(uint64_t bytes, bool tell) {
    MutexLock lock(mu_);
    done_bytes_ += static_cast<int64_t>(bytes);
    if (tell && options_.progress) options_.progress(done_bytes_, total_bytes_);
  }

  const std::vector<std::string>& files_;
  const Container& container_;
  const RecordSourceOptions& options_;
  const IndexCache cache_;
  const std::shared_ptr<OpenFiles> open_files_;
  const std::shared_ptr<SpanCache> spans_;
  std::shared_ptr<HttpFiles> http_;            // of the files that are URLs; null: none is
  std::vector<HttpFiles::Opened> urls_;        // of each file; without a file: it is no URL
  std::vector<HttpFiles::Opened> index_urls_;  // the same of dali_index
  int64_t total_bytes_ = 0;                    // constant while shards are walked

  // Element i is written by the thread that took shard i, and read after the join.
  std::vector<Shard> shards_;

  Mutex mu_;
  int64_t done_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
};

}  // namespace

absl::StatusOr<OpenedShards> OpenShards(const std::vector<std::string>& files,
                                        const Container& container,
                                        const RecordSourceOptions& options) {
  return Opener(files, container, options).Run();
}

}  // namespace millrace::readers
