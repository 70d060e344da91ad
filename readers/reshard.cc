#include "readers/reshard.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/permutation.h"
#include "base/status.h"
#include "readers/local_file.h"
#include "readers/record_source.h"
#include "readers/record_writer.h"
#include "readers/shard_set_internal.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr size_t kMostAtOnce = 1024;  // records that are located together
constexpr size_t kReadBytes =
    1 << 20;  // of records that follow each other, but for one longer record

// Which record of the source stands at each place of the output.
class Order {
 public:
  Order(uint64_t num_records, const ReshardOptions& options)
      : size_(options.sample_records.value_or(num_records)) {
    if (size_ == 0) return;
    if (options.sample_records.has_value()) {
      const Permutation drawn(num_records, options.seed);
      for (uint64_t i = 0; i < size_; ++i) sample_.push_back(drawn(i));
      std::ranges::sort(sample_);
    }
    if (options.shuffle) permutation_.emplace(size_, options.seed);
  }

  uint64_t size() const { return size_; }
  uint64_t operator[](uint64_t place) const {
    const uint64_t i = permutation_.has_value() ? (*permutation_)(place) : place;
    return sample_.empty() ? i : sample_[i];
  }

 private:
  const uint64_t size_;
  std::vector<uint64_t> sample_;  // sorted; empty: all records
  std::optional<Permutation> permutation_;
};

// Reads records by number; those that follow each other in a file together.
class Fetcher {
 public:
  explicit Fetcher(const RecordSource& source) : source_(source) {}

  // Calls `take(payload)` for the records at [begin, end) of `order`, at most kMostAtOnce.
  template <typename Take>
  absl::Status Fetch(const Order& order, uint64_t begin, uint64_t end, const Take& take) {
    const size_t count = end - begin;
    ids_.assign(count, {});
    for (size_t i = 0; i < count; ++i) ids_[i].record = order[begin + i];
    refs_.resize(count);
    starts_.resize(count + 1);
    source_.LocateAll(ids_, refs_, starts_);
    for (size_t first = 0; first < count;) {
      const size_t next = EndOfStretch(first);
      MILLRACE_RETURN_IF_ERROR(FetchStretch(first, next, take));
      first = next;
    }
    return absl::OkStatus();
  }

 private:
  // The records from `first` on that lie one behind the other and fit a read.
  size_t EndOfStretch(size_t first) const {
    size_t next = first + 1;
    while (next < refs_.size() && starts_[next + 1] - starts_[first] <= kReadBytes &&
           refs_[next].shard == refs_[first].shard &&
           refs_[next].offset - refs_[first].offset == starts_[next] - starts_[first]) {
      ++next;
    }
    return next;
  }

  template <typename Take>
  absl::Status FetchStretch(size_t first, size_t next, const Take& take) {
    buffer_.resize(starts_[next] - starts_[first]);
    MILLRACE_RETURN_IF_ERROR(
        ReadFully(*source_.file(refs_[first].shard), refs_[first].offset, buffer_));
    for (size_t i = first; i < next; ++i) {
      const std::span framed =
          std::span(buffer_).subspan(starts_[i] - starts_[first], starts_[i + 1] - starts_[i]);
      MILLRACE_ASSIGN_OR_RETURN(const std::string_view payload, source_.Unframe(refs_[i], framed));
      MILLRACE_RETURN_IF_ERROR(take(payload));
    }
    return absl::OkStatus();
  }

  const RecordSource& source_;
  std::vector<SampleId> ids_;
  std::vector<RecordRef> refs_;
  std::vector<size_t> starts_;
  std::vector<std::byte> buffer_;
};

class Resharding {
 public:
  Resharding(const ReshardOptions& options, const ReshardProgress& progress)
      : options_(options), progress_(progress) {}

  absl::StatusOr<ReshardReport> Run() {
    MILLRACE_RETURN_IF_ERROR(
        ShardSet::Check(options_.output_prefix, options_.num_shards, options_.overwrite));
    RecordSourceOptions source;
    source.compression = options_.input_compression;
    source.max_record_bytes = options_.max_record_bytes;
    source.index_folder = options_.index_folder;
    source.threads = options_.threads;
    MILLRACE_ASSIGN_OR_RETURN(source_, RecordSource::Open(options_.files, source));
    MILLRACE_RETURN_IF_ERROR(CheckCounts());
    order_ = std::make_unique<Order>(source_->num_records(), options_);
    FindBounds();
    MILLRACE_ASSIGN_OR_RETURN(shards_, ShardSet::Begin({.prefix = options_.output_prefix,
                                                        .num_shards = options_.num_shards,
                                                        .overwrite = options_.overwrite,
                                                        .job = Job()}));
    ReshardReport report;
    for (size_t shard = 0; shard + 1 < bounds_.size(); ++shard) {
      if (!shards_->Written(shard).has_value()) MILLRACE_RETURN_IF_ERROR(WriteShard(shard));
      report.num_records += shards_->Written(shard)->num_records;
      report.file_bytes += shards_->Written(shard)->file_bytes;
    }
    report.files = shards_->files();
    MILLRACE_RETURN_IF_ERROR(shards_->Commit(
        {.compression = options_.compression, .source = SourceText(), .class_names = {}}));
    return report;
  }

 private:
  absl::Status CheckCounts() const {
    const uint64_t there = source_->num_records();
    if (options_.sample_records.value_or(0) > there) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample_records: ", *options_.sample_records, " of ", there, " records"));
    }
    const uint64_t kept = options_.sample_records.value_or(there);
    if (static_cast<uint64_t>(options_.num_shards) > std::max<uint64_t>(kept, 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_shards: ", options_.num_shards, " shards for ", kept, " records"));
    }
    return absl::OkStatus();
  }

  // Cuts the output into shards of as many bytes each.
  void FindBounds() {
    const auto num_shards = static_cast<uint64_t>(options_.num_shards);
    const auto framed = [&](uint64_t place) {
      return source_->FramedBytes(source_->Locate((*order_)[place]));
    };
    unsigned __int128 total = 0;
    for (uint64_t place = 0; place < order_->size(); ++place) total += framed(place);
    bounds_.assign(1, 0);
    unsigned __int128 before = 0;  // bytes of the records before `place`
    for (uint64_t place = 0; place < order_->size(); ++place) {
      const uint64_t shard = bounds_.size();  // that may begin here
      const uint64_t left = order_->size() - place;
      const bool due = before * num_shards >= total * shard || left == num_shards - shard;
      if (shard < num_shards && due && place > bounds_.back()) bounds_.push_back(place);
      before += framed(place);
    }
    bounds_.push_back(order_->size());
  }

  // All that the bytes of the shards come from.
  uint64_t Job() const {
    std::string text = absl::StrCat(
        "reshard 1 ", source_->Fingerprint(), " ", options_.num_shards, " ", order_->size(), " ",
        options_.shuffle, " ", options_.shuffle || options_.sample_records ? options_.seed : 0, " ",
        ToAbsl(CompressionName(options_.compression)), " ", options_.compression_level);
    for (uint32_t shard = 0; shard < source_->files().size(); ++shard) {
      absl::StrAppend(&text, " ", AbsolutePath(options_.files[shard]));
      const auto stamp = source_->stamp(shard);
      if (stamp.has_value()) absl::StrAppend(&text, " ", stamp->mtime_ns);
    }
    return XXH3_64bits(text.data(), text.size());
  }

  absl::Status WriteShard(size_t shard) {
    MILLRACE_ASSIGN_OR_RETURN(
        const std::unique_ptr<TfRecordWriter> writer,
        TfRecordWriter::Open(shards_->PathOf(shard),
                             {.compression = options_.compression,
                              .compression_level = options_.compression_level}));
    Fetcher fetcher(*source_);
    for (uint64_t begin = bounds_[shard]; begin < bounds_[shard + 1];) {
      const uint64_t end = std::min<uint64_t>(begin + kMostAtOnce, bounds_[shard + 1]);
      MILLRACE_RETURN_IF_ERROR(fetcher.Fetch(
          *order_, begin, end, [&](std::string_view payload) { return writer->Write(payload); }));
      if (progress_) progress_(static_cast<int64_t>(end), static_cast<int64_t>(order_->size()));
      begin = end;
    }
    ShardFacts facts;
    facts.num_records = writer->num_records();
    MILLRACE_RETURN_IF_ERROR(writer->Close());
    return shards_->Wrote(shard, std::move(facts));
  }

  std::string SourceText() const {
    const std::vector<std::string>& files = source_->files();
    return files.size() == 1 ? files[0]
                             : absl::StrCat(files[0], " and ", files.size() - 1, " more");
  }

  const ReshardOptions& options_;
  const ReshardProgress& progress_;
  std::unique_ptr<RecordSource> source_;
  std::unique_ptr<Order> order_;
  std::vector<uint64_t> bounds_;  // places where shards begin, and the end
  std::unique_ptr<ShardSet> shards_;
};

}  // namespace

absl::Status ReshardOptions::Validate() const {
  if (files.empty()) return absl::InvalidArgumentError("files: none given");
  if (sample_records == uint64_t{0}) {
    return absl::InvalidArgumentError("sample_records: none is no sample");
  }
  return CheckShardOutput(output_prefix, num_shards, compression, compression_level);
}

absl::StatusOr<ReshardReport> Reshard(const ReshardOptions& options,
                                      const ReshardProgress& progress) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  return Resharding(options, progress).Run();
}

}  // namespace millrace::readers
