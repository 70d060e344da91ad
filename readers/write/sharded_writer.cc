#include "readers/sharded_writer.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/record_reader.h"
#include "readers/record_writer.h"
#include "readers/write/shard_set.h"

namespace millrace::readers {
namespace {

// A number that no other job has: records that were not read from anywhere cannot be taken over.
uint64_t OwnJob() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

class CuttingWriter final : public ShardedWriter {
 public:
  CuttingWriter(const ShardedWriterOptions& options, std::unique_ptr<ShardSet> shards)
      : options_(options), shards_(std::move(shards)) {}

  absl::Status Begin() {
    if (options_.num_shards == 1) {
      MILLRACE_ASSIGN_OR_RETURN(writer_, OpenShard(0));
      return absl::OkStatus();
    }
    MILLRACE_ASSIGN_OR_RETURN(writer_, TfRecordWriter::Open(WaitingPath(), {.sync = false}));
    return absl::OkStatus();
  }

  absl::Status Write(std::string_view record) override {
    if (closed_) return Closed();
    longest_ = std::max<uint64_t>(longest_, record.size());
    return writer_->Write(record);
  }

  absl::Status Close(const Cancels& cancels) override {
    if (closed_) return Closed();
    closed_ = true;
    absl::Status status = Finish(cancels);
    shards_.reset();  // removes the hidden folder
    return status;
  }

  uint64_t num_records() const override { return writer_->num_records(); }

 private:
  std::string WaitingPath() const { return shards_->folder() + "/waiting"; }

  absl::StatusOr<std::unique_ptr<TfRecordWriter>> OpenShard(size_t shard) const {
    return TfRecordWriter::Open(
        shards_->PathOf(shard),
        {.compression = options_.compression, .compression_level = options_.compression_level});
  }

  absl::Status Finish(const Cancels& cancels) {
    MILLRACE_RETURN_IF_ERROR(writer_->Close());  // first, for the error of a write that failed
    MILLRACE_RETURN_IF_ERROR(CheckCount());
    if (options_.num_shards == 1) {
      MILLRACE_RETURN_IF_ERROR(Wrote(0, writer_->num_records()));
    } else {
      MILLRACE_RETURN_IF_ERROR(Cut(cancels));
    }
    return shards_->Commit({.compression = options_.compression, .source = "a program"});
  }

  absl::Status Wrote(size_t shard, uint64_t num_records) {
    ShardFacts facts;
    facts.num_records = num_records;
    return shards_->Wrote(shard, std::move(facts));
  }

  absl::Status CheckCount() const {
    const auto num_shards = static_cast<uint64_t>(options_.num_shards);
    if (num_shards <= std::max<uint64_t>(num_records(), 1)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("num_shards: ", num_shards, " shards for ", num_records(), " records"));
  }

  absl::Status Cut(const Cancels& cancels) {
    MILLRACE_ASSIGN_OR_RETURN(
        const auto reader,
        OpenTfRecordReader(WaitingPath(), {.compression = Compression::kNone,
                                           .max_record_bytes = std::max<uint64_t>(longest_, 1)}));
    const uint64_t total = num_records();
    const auto num_shards = static_cast<uint64_t>(options_.num_shards);
    uint64_t done = 0;
    for (uint64_t shard = 0; shard < num_shards; ++shard) {
      MILLRACE_ASSIGN_OR_RETURN(const auto writer, OpenShard(shard));
      for (const uint64_t end = (shard + 1) * total / num_shards; done < end;) {
        MILLRACE_RETURN_IF_ERROR(CopyRecord(*reader, *writer));
        ++done;
        if (cancels && cancels(static_cast<int64_t>(done), static_cast<int64_t>(total))) {
          return absl::CancelledError("writing shards was cancelled");
        }
      }
      MILLRACE_RETURN_IF_ERROR(writer->Close());
      MILLRACE_RETURN_IF_ERROR(Wrote(shard, writer->num_records()));
    }
    return absl::OkStatus();
  }

  static absl::Status CopyRecord(RecordReader& reader, TfRecordWriter& writer) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<Record> record, reader.Next());
    if (!record.has_value()) return absl::DataLossError("records that were written are gone");
    return writer.Write(record->payload);
  }

  static absl::Status Closed() {
    return absl::FailedPreconditionError("the writer of shards is closed");
  }

  const ShardedWriterOptions options_;
  std::unique_ptr<ShardSet> shards_;        // null once it is closed
  std::unique_ptr<TfRecordWriter> writer_;  // of the one shard, or of the records that wait
  uint64_t longest_ = 0;                    // bytes of the longest record
  bool closed_ = false;
};

}  // namespace

absl::Status ShardedWriterOptions::Validate() const {
  return CheckShardOutput(output_prefix, num_shards, compression, compression_level);
}

absl::StatusOr<std::unique_ptr<ShardedWriter>> ShardedWriter::Open(
    const ShardedWriterOptions& options) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  MILLRACE_ASSIGN_OR_RETURN(auto shards, ShardSet::Begin({.prefix = options.output_prefix,
                                                          .num_shards = options.num_shards,
                                                          .overwrite = options.overwrite,
                                                          .job = OwnJob()}));
  auto writer = std::make_unique<CuttingWriter>(options, std::move(shards));
  MILLRACE_RETURN_IF_ERROR(writer->Begin());
  return writer;
}

}  // namespace millrace::readers
