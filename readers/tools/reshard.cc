#include "readers/reshard.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/permutation.h"
#include "base/status.h"
#include "readers/record_source.h"
#include "readers/record_writer.h"
#include "readers/source/record_fetcher.h"
#include "readers/write/shard_set.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr size_t kMostAtOnce = 1024;  // records that are located together

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

class Resharding {
 public:
  Resharding(const ReshardOptions& options, const ReshardProgress& progress)
      : options_(options), progress_(progress) {}

  absl::StatusOr<ReshardReport> Run() {
    ShardSetOptions set{.prefix = options_.output_prefix,
                        .num_shards = options_.num_shards,
                        .overwrite = options_.overwrite};
    MILLRACE_RETURN_IF_ERROR(ShardSet::Check(set));
    RecordSourceOptions source;
    source.compression = options_.input_compression;
    source.max_record_bytes = options_.max_record_bytes;
    source.index_folder = options_.index_folder;
    source.threads = options_.threads;
    source.progress = options_.index_progress;
    MILLRACE_ASSIGN_OR_RETURN(source_, RecordSource::Open(options_.files, source));
    MILLRACE_RETURN_IF_ERROR(CheckCounts());
    order_ = std::make_unique<Order>(source_->num_records(), options_);
    FindBounds();
    set.job = Job();
    MILLRACE_ASSIGN_OR_RETURN(shards_, ShardSet::Begin(set));
    ReshardReport report;
    for (size_t shard = 0; shard + 1 < bounds_.size(); ++shard) {
      if (!shards_->Written(shard).has_value()) MILLRACE_RETURN_IF_ERROR(WriteShard(shard));
      report.num_records += shards_->Written(shard)->num_records;
      report.file_bytes += shards_->Written(shard)->file_bytes;
    }
    report.files = shards_->files();
    MILLRACE_RETURN_IF_ERROR(shards_->Commit(
        {.compression = options_.compression, .source = SourceText(source_->files())}));
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
    RecordFetcher fetcher(*source_);
    std::vector<uint64_t> records;
    for (uint64_t begin = bounds_[shard]; begin < bounds_[shard + 1];) {
      const uint64_t end = std::min<uint64_t>(begin + kMostAtOnce, bounds_[shard + 1]);
      records.clear();
      for (uint64_t place = begin; place < end; ++place) records.push_back((*order_)[place]);
      MILLRACE_RETURN_IF_ERROR(fetcher.Fetch(
          records,
          [&](const RecordRef&, std::string_view payload) { return writer->Write(payload); }));
      if (progress_) progress_(static_cast<int64_t>(end), static_cast<int64_t>(order_->size()));
      begin = end;
    }
    ShardFacts facts;
    facts.num_records = writer->num_records();
    MILLRACE_RETURN_IF_ERROR(writer->Close());
    return shards_->Wrote(shard, std::move(facts));
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
