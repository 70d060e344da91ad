#include "readers/convert.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/permutation.h"
#include "base/status.h"
#include "readers/convert/bad_records.h"
#include "readers/convert/input.h"
#include "readers/convert/options.h"
#include "readers/convert/output.h"
#include "readers/convert/prepare.h"
#include "readers/convert/work.h"
#include "readers/write/shard_set.h"
#include "xxhash.h"

// One thing between a table of inputs and a table of outputs: a record, which is bytes, or a sample
// of named features. An input makes records (readers/convert/input.h), PrepareSample changes them,
// an output encodes them (readers/convert/output.h). All that takes time is done for a chunk of
// records at once by any thread; chunks are written in order, so that bytes do not depend on
// threads.

namespace millrace::readers {
namespace {

using internal::BadRecords;
using internal::ConvertRecord;
using internal::EncodedChunk;
using internal::EncodedRecord;
using internal::FetchedRecords;

constexpr uint64_t kChunkBytes = 1 << 20;  // or one longer record
constexpr uint64_t kChunkRecords = 256;    // of images that are encoded anew, which may grow: 1

class Conversion {
 public:
  Conversion(const ConvertOptions& options, const ConvertProgress& progress)
      : options_(options), progress_(progress), as_samples_(internal::HasSamples(options)) {}

  absl::StatusOr<ConvertReport> Run() {
    ShardSetOptions set{.prefix = options_.output_prefix,
                        .num_shards = options_.num_shards,
                        .extension = Extension(),
                        .overwrite = options_.overwrite};
    MILLRACE_RETURN_IF_ERROR(internal::CheckGoesOn(options_));
    MILLRACE_RETURN_IF_ERROR(ShardSet::Check(set));
    MILLRACE_ASSIGN_OR_RETURN(bad_, BadRecords::Open(options_));
    MILLRACE_RETURN_IF_ERROR(Open());
    set.job = Job();
    MILLRACE_ASSIGN_OR_RETURN(shards_, ShardSet::Begin(set));
    for (const absl::Status& error : input_->damaged_files()) {
      MILLRACE_RETURN_IF_ERROR(bad_->Add(error));
    }
    report_.num_left_out = input_->damaged_files().size();
    if (const absl::Status status = WriteShards(); !status.ok()) {
      if (absl::IsCancelled(status) && shards_->Written(0).has_value()) shards_->Keep();
      return status;
    }
    MILLRACE_RETURN_IF_ERROR(bad_->Verdict());
    report_.files = shards_->files();
    report_.class_names = input_->class_names();
    report_.num_images_not_read = input_->num_not_read();
    MILLRACE_RETURN_IF_ERROR(shards_->Commit({.format = std::string(ConvertFormatName(options_.to)),
                                              .compression = options_.compression,
                                              .source = input_->Source(),
                                              .schema = output_->schema(),
                                              .record_bytes = output_->record_bytes(),
                                              .class_names = report_.class_names}));
    return std::move(report_);
  }

 private:
  std::string Extension() const {
    const auto usual = internal::ShardExtensions(options_.to);
    if (!options_.suffix.empty() || usual.empty()) return options_.suffix;
    return std::string(usual.front());
  }

  absl::Status Open() {
    MILLRACE_ASSIGN_OR_RETURN(input_, internal::OpenConvertInput(options_, as_samples_));
    total_ = input_->num_records();
    if (static_cast<uint64_t>(options_.num_shards) > std::max<uint64_t>(total_, 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_shards: ", options_.num_shards, " shards for ", total_, " records"));
    }
    if (options_.shuffle_seed.has_value() && total_ > 0) {
      order_.emplace(total_, *options_.shuffle_seed);
    }
    output_ = internal::MakeConvertOutput(options_, as_samples_, input_->class_names());
    if (input_->schema().empty()) return BeginOutput(options_.schema);
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<ConvertFeature> declared,
                              internal::PrepareSchema(options_, input_->schema()));
    return BeginOutput(declared);
  }

  absl::Status BeginOutput(const std::vector<ConvertFeature>& declared) {
    MILLRACE_RETURN_IF_ERROR(output_->CheckDeclared(declared));
    if (!output_->needs_first() || total_ == 0) return output_->Begin(declared, nullptr);
    // An input that is read in order is opened once more: the first record comes again.
    std::unique_ptr<internal::ConvertInput> own;
    if (input_->fetch_in_order()) {
      ConvertOptions again = options_;
      again.warn = nullptr;  // it has been told
      MILLRACE_ASSIGN_OR_RETURN(own, internal::OpenConvertInput(again, as_samples_));
    }
    return BeginWithFirstGood(declared, own != nullptr ? *own : *input_);
  }

  // Shows the output the first record that can be converted; without one the first error is told.
  absl::Status BeginWithFirstGood(const std::vector<ConvertFeature>& declared,
                                  const internal::ConvertInput& input) {
    std::vector<absl::Status> errors;
    const auto begin = [&](ConvertRecord record) {
      MILLRACE_RETURN_IF_ERROR(Prepare(record));
      MILLRACE_RETURN_IF_ERROR(output_->Begin(declared, &record));
      return output_->Encode(std::move(record), 0).status();
    };
    const auto refuse = [&](const absl::Status& error) -> absl::Status {
      if (absl::IsResourceExhausted(error) || absl::IsCancelled(error)) return error;
      errors.push_back(error);
      return absl::OkStatus();
    };
    for (uint64_t record = 0; record < std::min(total_, BadRecords::kMostAtFirst); ++record) {
      MILLRACE_RETURN_IF_ERROR(internal::CheckGoesOn(options_));
      MILLRACE_ASSIGN_OR_RETURN(const auto fetched, input.Fetch({record}));
      MILLRACE_RETURN_IF_ERROR(fetched->ForEach(begin, refuse));
      if (errors.size() <= record) return absl::OkStatus();
    }
    for (const absl::Status& error : errors) MILLRACE_RETURN_IF_ERROR(bad_->Add(error));
    return bad_->Verdict();
  }

  absl::Status Prepare(ConvertRecord& record) const {
    if (!as_samples_) return absl::OkStatus();
    return internal::PrepareSample(options_, input_->schema(), record.sample);
  }

  // All that the bytes of the shards come from.
  uint64_t Job() const {
    const auto optional = [](const auto& value) {
      return value.has_value() ? absl::StrCat(*value) : "-";
    };
    std::string text = absl::StrCat(
        "convert 5 ", static_cast<int>(options_.on_damage), " ",
        options_.check_images ? static_cast<int>(*options_.check_images) : -1, " ",
        ToAbsl(ConvertFormatName(options_.from)), " ", ToAbsl(ConvertFormatName(options_.to)), " ",
        input_->Identity(), " ", ToString(options_.container), " ", ToString(options_.schema),
        options_.allow_nan ? " nan" : "", "\n", options_.feature, "\n", options_.image_feature,
        "\n", internal::Recodes(options_) ? options_.codec->recoding() : "", "\n",
        options_.num_shards, " ", optional(options_.shuffle_seed), " ", optional(options_.label),
        " ", ToAbsl(CompressionName(options_.compression)), " ", options_.compression_level);
    for (const auto& [name, new_name] : options_.features) {
      absl::StrAppend(&text, "\n", name, "\n", new_name);
    }
    return XXH3_64bits(text.data(), text.size());
  }

  uint64_t FirstOf(size_t shard) const {
    return shard * total_ / static_cast<uint64_t>(options_.num_shards);
  }
  uint64_t RecordAt(uint64_t place) const { return order_.has_value() ? (*order_)(place) : place; }

  // Where the chunks of a shard begin, and where the last one ends.
  std::vector<uint64_t> ChunksOf(size_t shard) const {
    const uint64_t most = internal::Recodes(options_) ? 1 : kChunkRecords;
    const uint64_t end = FirstOf(shard + 1);
    std::vector<uint64_t> begins = {FirstOf(shard)};
    uint64_t bytes = 0;
    for (uint64_t place = begins[0]; place < end; ++place) {
      const uint64_t size = input_->RecordBytes(RecordAt(place));
      const uint64_t count = place - begins.back();
      if (count > 0 && (count == most || bytes + size > kChunkBytes)) {
        begins.push_back(place);
        bytes = 0;
      }
      bytes += size;
    }
    if (end > begins.back()) begins.push_back(end);
    return begins;
  }

  absl::Status WriteShards() {
    for (size_t shard = 0; shard < shards_->files().size(); ++shard) {
      if (const auto& facts = shards_->Written(shard); facts.has_value()) {
        bad_->AddEarlier(facts->num_records, facts->num_left_out);
      } else {
        MILLRACE_RETURN_IF_ERROR(WriteShard(shard));
      }
      if (!bad_->fails()) Report(shard);
    }
    return absl::OkStatus();
  }

  absl::Status WriteShard(size_t shard) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<internal::ShardWriter> writer,
                              output_->OpenShard(shards_->PathOf(shard)));
    ShardFacts facts;
    const std::vector<uint64_t> begins = ChunksOf(shard);
    internal::ChunkWork work;
    work.num_chunks = begins.size() - 1;
    work.fetch_in_order = input_->fetch_in_order();
    work.fetch = [&](uint64_t chunk) {
      std::vector<uint64_t> records;
      for (uint64_t place = begins[chunk]; place < begins[chunk + 1]; ++place) {
        records.push_back(RecordAt(place));
      }
      return input_->Fetch(std::move(records));
    };
    work.encode = [&](uint64_t chunk, FetchedRecords& records) {
      return Encode(begins[chunk], records);
    };
    uint64_t place = FirstOf(shard);
    work.write = [&](const EncodedChunk& chunk) { return Write(chunk, place, *writer, facts); };
    work.wait = [this] { return internal::CheckGoesOn(options_); };
    MILLRACE_RETURN_IF_ERROR(internal::RunInOrder(work, options_.threads));
    if (bad_->fails()) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(writer->Close());
    return shards_->Wrote(shard, std::move(facts));
  }

  absl::StatusOr<EncodedChunk> Encode(uint64_t first_place, FetchedRecords& records) const {
    EncodedChunk chunk;
    const auto take = [&](ConvertRecord record) {
      MILLRACE_ASSIGN_OR_RETURN(EncodedRecord encoded,
                                Encode(std::move(record), first_place + chunk.size()));
      chunk.emplace_back(std::move(encoded));
      return absl::OkStatus();
    };
    const auto refuse = [&](const absl::Status& error) {
      chunk.emplace_back(error);
      return absl::OkStatus();
    };
    const absl::Status status = records.ForEach(take, refuse);
    if (!status.ok()) return status;
    return chunk;
  }

  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t place) const {
    const std::optional<int64_t> label = record.label;
    MILLRACE_RETURN_IF_ERROR(Prepare(record));
    MILLRACE_ASSIGN_OR_RETURN(EncodedRecord encoded, output_->Encode(std::move(record), place));
    encoded.counted_label = label;
    return encoded;
  }

  // Writes the good records of a chunk, while there is something to be written. `place`: that of
  // the next record among those that are read.
  absl::Status Write(const EncodedChunk& chunk, uint64_t& place, internal::ShardWriter& writer,
                     ShardFacts& facts) {
    for (const absl::StatusOr<EncodedRecord>& record : chunk) {
      if (record.ok()) {
        MILLRACE_RETURN_IF_ERROR(Write(*record, writer, facts));
      } else {
        ++facts.num_left_out;
        MILLRACE_RETURN_IF_ERROR(bad_->Add(record.status()));
      }
      ++place;
      if (progress_) progress_(static_cast<int64_t>(place), static_cast<int64_t>(total_));
      MILLRACE_RETURN_IF_ERROR(internal::CheckGoesOn(options_));
    }
    return absl::OkStatus();
  }

  absl::Status Write(const EncodedRecord& record, internal::ShardWriter& writer,
                     ShardFacts& facts) {
    bad_->AddGood();
    if (bad_->fails()) return absl::OkStatus();
    if (const absl::Status status = writer.Write(record); !status.ok()) {
      return Annotate(status, absl::StrCat("record ", report_.num_records + facts.num_records,
                                           " of the output"));
    }
    ++facts.num_records;
    if (record.counted_label.has_value()) ++facts.records_per_label[*record.counted_label];
    return absl::OkStatus();
  }

  void Report(size_t shard) {
    const ShardFacts& facts = *shards_->Written(shard);
    report_.num_records += facts.num_records;
    report_.num_left_out += facts.num_left_out;
    report_.file_bytes += facts.file_bytes;
    for (const auto& [label, count] : facts.records_per_label) {
      report_.records_per_label[label] += count;
    }
  }

  const ConvertOptions& options_;
  const ConvertProgress& progress_;
  const bool as_samples_;
  std::unique_ptr<internal::ConvertInput> input_;
  std::unique_ptr<internal::ConvertOutput> output_;
  std::unique_ptr<BadRecords> bad_;
  uint64_t total_ = 0;
  std::optional<Permutation> order_;
  std::unique_ptr<ShardSet> shards_;
  ConvertReport report_;
};

}  // namespace

absl::StatusOr<ConvertReport> Convert(const ConvertOptions& options,
                                      const ConvertProgress& progress) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  return Caught([&] { return Conversion(options, progress).Run(); });
}

}  // namespace millrace::readers
