#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/convert/input.h"
#include "readers/convert/options.h"
#include "readers/convert/parser.h"
#include "readers/record_source.h"
#include "readers/source/record_fetcher.h"
#include "readers/write/shard_set.h"

namespace millrace::readers::internal {
namespace {

constexpr size_t kMaxCacheBytes = 1 << 30;  // of files that a shuffle jumps about in

// Errors of a record get its place; those that name a file already keep theirs.
absl::Status AtRecord(const absl::Status& status, const std::string& file, const RecordRef& ref) {
  if (status.ok()) return status;
  const std::optional<RecordError> known = GetRecordError(status);
  if (known.has_value() && !known->file.empty()) return status;
  RecordError error;
  error.file = file;
  error.offset = static_cast<int64_t>(ref.offset);
  error.ordinal = static_cast<int64_t>(ref.ordinal);
  error.reason = known.has_value()          ? known->reason
                 : absl::IsDataLoss(status) ? RecordErrorReason::kExample
                                            : RecordErrorReason::kFeature;
  const auto message = status.message();
  return MakeRecordError(status.code(), error, {message.data(), message.size()});
}

class FetchedBytes final : public FetchedRecords {
 public:
  // All are borrowed.
  FetchedBytes(const RecordSource& source,
               const std::vector<std::shared_ptr<const RecordParser>>& parsers,
               std::vector<uint64_t> records)
      : source_(source), parsers_(parsers), records_(std::move(records)) {}

  absl::Status ForEach(const TakeRecord& take, const RefuseRecord& refuse) override {
    RecordFetcher fetcher(source_);
    const auto visit = [&](const RecordRef& ref, const absl::StatusOr<std::string_view>& payload) {
      const absl::Status status = payload.ok() ? Parse(ref, *payload, take) : payload.status();
      return status.ok() ? status : refuse(AtRecord(status, source_.files()[ref.shard], ref));
    };
    return fetcher.FetchAll(records_, visit);
  }

 private:
  absl::Status Parse(const RecordRef& ref, std::string_view payload, const TakeRecord& take) {
    arena_.Reset();
    ConvertRecord record;
    MILLRACE_RETURN_IF_ERROR(parsers_[ref.shard]->Parse(payload, arena_, record));
    return take(std::move(record));
  }

  const RecordSource& source_;
  const std::vector<std::shared_ptr<const RecordParser>>& parsers_;
  const std::vector<uint64_t> records_;
  RunArena arena_;
};

// The features that the output asks for; empty: all of them.
std::vector<std::string> TakenFeatures(const ConvertOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, new_name] : options.features) names.push_back(name);
  if (names.empty() && !options.feature.empty()) names.push_back(options.feature);
  return names;
}

class RecordInput final : public ConvertInput {
 public:
  RecordInput(std::unique_ptr<RecordSource> source, std::vector<absl::Status> damaged)
      : source_(std::move(source)), damaged_files_(std::move(damaged)) {}

  void MakeParsers(const ConvertOptions& options, bool as_samples) {
    const size_t num_shards = source_->files().size();
    if (options.from == ConvertFormat::kCsv) {
      schema_ = options.schema;
      MakeCsvParsers(options);
      return;
    }
    std::shared_ptr<const RecordParser> parser;
    if (!as_samples) {
      parser = MakeOpaqueParser();
    } else if (options.from == ConvertFormat::kTfRecord) {
      parser = MakeExampleParser(TakenFeatures(options));
    } else if (options.from == ConvertFormat::kTar) {
      parser = MakeTarParser(options.schema);
      if (!options.schema.empty()) schema_.push_back({.name = kTarKey});
      schema_.insert(schema_.end(), options.schema.begin(), options.schema.end());
    } else if (options.from == ConvertFormat::kJsonLines) {
      parser = MakeJsonParser(options.schema, options.allow_nan);
      schema_ = options.schema;
    } else {
      parser = MakeBytesParser(options.feature);
      schema_ = {{.name = options.feature}};
    }
    parsers_.assign(num_shards, parser);
  }

  uint64_t num_records() const override { return source_->num_records(); }
  uint64_t RecordBytes(uint64_t record) const override {
    return source_->FramedBytes(source_->Locate(record));
  }
  absl::StatusOr<std::unique_ptr<FetchedRecords>> Fetch(
      std::vector<uint64_t> records) const override {
    return std::make_unique<FetchedBytes>(*source_, parsers_, std::move(records));
  }

  std::string Identity() const override {
    std::string text = absl::StrCat(source_->Fingerprint());
    for (uint32_t shard = 0; shard < source_->files().size(); ++shard) {
      absl::StrAppend(&text, " ", AbsolutePath(source_->files()[shard]));
      const auto stamp = source_->stamp(shard);
      if (stamp.has_value()) absl::StrAppend(&text, " ", stamp->mtime_ns);
    }
    return text;
  }
  std::string Source() const override { return SourceText(source_->files()); }
  const std::vector<ConvertFeature>& schema() const override { return schema_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  const std::vector<absl::Status>& damaged_files() const override { return damaged_files_; }

 private:
  // Each shard's header says where its columns are; without one they are as declared.
  void MakeCsvParsers(const ConvertOptions& options) {
    for (uint32_t shard = 0; shard < source_->files().size(); ++shard) {
      parsers_.push_back(
          MakeCsvParser(schema_, source_->CellsOf(shard), options.container.delimiter));
    }
  }

  const std::unique_ptr<RecordSource> source_;
  const std::vector<absl::Status> damaged_files_;
  std::vector<std::shared_ptr<const RecordParser>> parsers_;  // of each shard
  std::vector<ConvertFeature> schema_;
  const std::vector<std::string> class_names_;  // not known
};

ContainerKind ContainerOf(ConvertFormat format) {
  switch (format) {
    case ConvertFormat::kFixedLength:
      return ContainerKind::kFixedLength;
    case ConvertFormat::kText:
    case ConvertFormat::kJsonLines:
      return ContainerKind::kText;
    case ConvertFormat::kCsv:
      return ContainerKind::kCsv;
    case ConvertFormat::kTar:
      return ContainerKind::kTar;
    default:
      return ContainerKind::kTfRecord;
  }
}

// Those of the schema are read, and no others.
CsvColumns ColumnsOf(const ConvertOptions& options) {
  CsvColumns columns;
  for (const ConvertFeature& feature : options.schema) columns.names.push_back(feature.name);
  columns.allow_more = true;
  columns.delimiter = options.container.delimiter;
  return columns;
}

// The error of a file as a whole is that of its begin.
absl::Status AtFile(absl::Status status, const std::string& file) {
  if (GetRecordError(status).has_value()) return status;
  RecordError error;
  error.file = file;
  error.offset = 0;
  error.ordinal = 0;
  SetRecordError(status, error);
  return status;
}

// True for an error that is one of the file, so that others may have errors of their own.
bool IsOfFile(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
         absl::IsPermissionDenied(status) || absl::IsFailedPrecondition(status);
}

// The files that are not opened, and why.
struct BadFiles {
  std::vector<absl::Status> damaged;   // that hold no record for damage
  std::vector<absl::Status> unusable;  // that end every run
};

// The error of a run that unusable files end; tells all of them, the damaged ones too.
absl::Status TellAll(const BadFiles& bad, const ConvertOptions& options) {
  if (options.tell_bad) {
    for (const auto* const errors : {&bad.damaged, &bad.unusable}) {
      for (const absl::Status& error : *errors) options.tell_bad(error);
    }
  }
  const absl::Status& first = bad.unusable.front();
  const size_t others = bad.damaged.size() + bad.unusable.size() - 1;
  if (others == 0) return first;
  return absl::Status(first.code(), absl::StrCat(first.message(), " (and ", others, " more of ",
                                                 options.files.size(), " files)"));
}

// Opens the files without those that hold no record for damage, whose errors go to `damaged`.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenUndamaged(const ConvertOptions& convert,
                                                            const RecordSourceOptions& options,
                                                            std::vector<absl::Status>& damaged) {
  auto source = RecordSource::Open(convert.files, options);
  const bool is_of_file = IsOfFile(source.status()) || absl::IsDataLoss(source.status());
  if (source.ok() || !is_of_file || convert.files.size() == 1) return source;
  std::vector<std::string> good;
  BadFiles bad;
  for (const std::string& file : convert.files) {  // the indexes of good ones are kept
    MILLRACE_RETURN_IF_ERROR(CheckGoesOn(convert));
    const absl::Status status = RecordSource::Open({file}, options).status();
    if (status.ok()) {
      good.push_back(file);
    } else if (absl::IsDataLoss(status)) {
      bad.damaged.push_back(AtFile(status, file));
    } else if (IsOfFile(status)) {
      bad.unusable.push_back(status);
    } else {
      return status;
    }
  }
  if (!bad.unusable.empty()) return TellAll(bad, convert);
  if (good.empty() || bad.damaged.empty()) return source;
  damaged = std::move(bad.damaged);
  return RecordSource::Open(good, options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvertInput>> OpenRecordInput(const ConvertOptions& options,
                                                              bool as_samples) {
  RecordSourceOptions source;
  source.container = options.container;
  source.container.kind = ContainerOf(options.from);
  source.container.skips_blank = options.from == ConvertFormat::kJsonLines;
  source.columns = ColumnsOf(options);
  source.compression = options.input_compression;
  source.max_record_bytes = options.max_record_bytes;
  source.resync = true;  // damage is found record by record
  source.index_folder = options.index_folder;
  source.progress = options.index_progress;
  source.threads = options.threads;
  source.cancels = options.cancels;
  if (options.shuffle_seed.has_value()) {
    source.window_records = UINT64_MAX;
    source.cache_bytes = std::min(kMaxCacheBytes, static_cast<size_t>(options.max_memory_bytes));
  }
  std::vector<absl::Status> damaged;
  MILLRACE_ASSIGN_OR_RETURN(auto records, OpenUndamaged(options, source, damaged));
  auto input = std::make_unique<RecordInput>(std::move(records), std::move(damaged));
  input->MakeParsers(options, as_samples);
  return input;
}

absl::StatusOr<std::unique_ptr<ConvertInput>> OpenConvertInput(const ConvertOptions& options,
                                                               bool as_samples) {
  return HoldsImages(options.from) ? OpenImageInput(options) : OpenRecordInput(options, as_samples);
}

}  // namespace millrace::readers::internal
