#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/convert/input.h"
#include "readers/convert/parser.h"
#include "readers/open_file.h"
#include "readers/record_source.h"
#include "readers/source/record_fetcher.h"
#include "readers/text/csv_row.h"
#include "readers/write/shard_set.h"

namespace millrace::readers::internal {
namespace {

constexpr uint64_t kMaxHeaderBytes = 16 << 20;
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

// The columns that the first row of a shard names. `rows_begin`: of the first row behind it.
absl::StatusOr<std::vector<std::string>> ReadCsvHeader(const RandomAccessFile& file,
                                                       uint64_t rows_begin, char delimiter) {
  if (rows_begin > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": a header of ", rows_begin, " bytes"));
  }
  std::vector<std::byte> bytes(rows_begin);
  MILLRACE_RETURN_IF_ERROR(ReadFully(file, 0, bytes));
  std::string_view row(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (row.starts_with(kByteOrderMark)) row.remove_prefix(kByteOrderMark.size());
  // Blank lines around the header are none of its columns.
  const size_t begin = std::min(row.find_first_not_of("\r\n"), row.size());
  row = row.substr(begin, row.find_last_not_of("\r\n") + 1 - begin);
  RunArena arena;
  std::vector<CsvCell> cells;
  absl::StatusOr<size_t> count = SplitCsvRow(row, delimiter, arena, cells);
  if (count.ok()) {
    cells.resize(*count);
    count = SplitCsvRow(row, delimiter, arena, cells);
  }
  if (!count.ok()) return Annotate(count.status(), absl::StrCat(file.path(), ": header"));
  std::vector<std::string> columns;
  for (const CsvCell& cell : cells) columns.emplace_back(cell.text);
  return columns;
}

absl::Status CheckColumns(const std::string& file, const std::vector<std::string>& columns,
                          const std::vector<ConvertFeature>& schema) {
  for (const ConvertFeature& feature : schema) {
    const auto same = std::ranges::count(columns, feature.name);
    if (same == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": header: ", same == 0 ? "no column '" : "several columns '",
                     feature.name, "'", same == 0 ? DidYouMean(feature.name, columns) : ""));
  }
  return absl::OkStatus();
}

class FetchedBytes final : public FetchedRecords {
 public:
  // All are borrowed.
  FetchedBytes(const RecordSource& source,
               const std::vector<std::shared_ptr<const RecordParser>>& parsers,
               std::vector<uint64_t> records)
      : source_(source), parsers_(parsers), records_(std::move(records)) {}

  absl::Status ForEach(const TakeRecord& take) override {
    RecordFetcher fetcher(source_);
    return fetcher.Fetch(records_, [&](const RecordRef& ref, std::string_view payload) {
      return AtRecord(Parse(ref, payload, take), source_.files()[ref.shard], ref);
    });
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
  explicit RecordInput(std::unique_ptr<RecordSource> source) : source_(std::move(source)) {}

  absl::Status MakeParsers(const ConvertOptions& options, bool as_samples) {
    const size_t num_shards = source_->files().size();
    if (options.from == ConvertFormat::kCsv) {
      schema_ = options.schema;
      return MakeCsvParsers(options);
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
      parser = MakeFieldParser(RecordFormat::kJson, options.schema, {}, ',');
      schema_ = options.schema;
    } else {
      parser = MakeBytesParser(options.feature);
      schema_ = {{.name = options.feature}};
    }
    parsers_.assign(num_shards, parser);
    return absl::OkStatus();
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

 private:
  // Each shard's header says where its columns are; without one they are as declared.
  absl::Status MakeCsvParsers(const ConvertOptions& options) {
    std::vector<std::string> declared;
    for (const ConvertFeature& feature : schema_) declared.push_back(feature.name);
    const char delimiter = options.container.delimiter;
    const auto make = [&](const std::vector<std::string>& columns) {
      return MakeFieldParser(RecordFormat::kCsv, schema_, columns, delimiter);
    };
    parsers_.assign(source_->files().size(), nullptr);
    if (!options.container.has_header) {
      parsers_.assign(parsers_.size(), make(declared));
      return absl::OkStatus();
    }
    for (uint64_t record = 0; record < source_->num_records();) {
      const RecordRef first = source_->Locate(record);
      MILLRACE_ASSIGN_OR_RETURN(
          const std::vector<std::string> columns,
          ReadCsvHeader(*source_->file(first.shard), first.offset, delimiter));
      MILLRACE_RETURN_IF_ERROR(CheckColumns(source_->files()[first.shard], columns, schema_));
      parsers_[first.shard] = make(columns);
      record = NextShard(record, first.shard);
    }
    return absl::OkStatus();
  }

  // The first record behind those of `shard`, which `record` is one of.
  uint64_t NextShard(uint64_t record, uint32_t shard) const {
    uint64_t low = record;  // in the shard
    uint64_t high = source_->num_records();
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      (source_->Locate(middle).shard == shard ? low : high) = middle;
    }
    return high;
  }

  const std::unique_ptr<RecordSource> source_;
  std::vector<std::shared_ptr<const RecordParser>> parsers_;  // of each shard that has records
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

}  // namespace

absl::StatusOr<std::unique_ptr<ConvertInput>> OpenRecordInput(const ConvertOptions& options,
                                                              bool as_samples) {
  RecordSourceOptions source;
  source.container = options.container;
  source.container.kind = ContainerOf(options.from);
  source.compression = options.input_compression;
  source.max_record_bytes = options.max_record_bytes;
  source.index_folder = options.index_folder;
  source.progress = options.index_progress;
  source.threads = options.threads;
  if (options.shuffle_seed.has_value()) {
    source.window_records = UINT64_MAX;
    source.cache_bytes = std::min(kMaxCacheBytes, static_cast<size_t>(options.max_memory_bytes));
  }
  MILLRACE_ASSIGN_OR_RETURN(auto records, RecordSource::Open(options.files, source));
  auto input = std::make_unique<RecordInput>(std::move(records));
  MILLRACE_RETURN_IF_ERROR(input->MakeParsers(options, as_samples));
  return input;
}

absl::StatusOr<std::unique_ptr<ConvertInput>> OpenConvertInput(const ConvertOptions& options,
                                                               bool as_samples) {
  return HoldsImages(options.from) ? OpenImageInput(options) : OpenRecordInput(options, as_samples);
}

}  // namespace millrace::readers::internal
