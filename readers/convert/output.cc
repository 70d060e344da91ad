#include "readers/convert/output.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "readers/example_builder.h"
#include "readers/text/number_text.h"
#include "readers/write/record_writer.h"

namespace millrace::readers::internal {
namespace {

class FileShard final : public ShardWriter {
 public:
  FileShard(std::unique_ptr<AtomicFile> file, const ConvertOptions& options, std::string footer)
      : file_(std::move(file)),
        sink_(MakeRecordSink(*file_, options.compression, options.compression_level)),
        footer_(std::move(footer)) {}

  absl::Status Append(std::string_view bytes) {
    return bytes.empty() ? absl::OkStatus() : sink_->Append(std::as_bytes(std::span(bytes)));
  }
  absl::Status Write(const EncodedRecord& record) override { return Append(record.bytes); }
  absl::Status Close() override {
    MILLRACE_RETURN_IF_ERROR(Append(footer_));
    MILLRACE_RETURN_IF_ERROR(sink_->Finish());
    return file_->Commit(/*sync=*/true);
  }

 private:
  const std::unique_ptr<AtomicFile> file_;
  const std::unique_ptr<RecordSink> sink_;
  const std::string footer_;
};

class TfRecordShard final : public ShardWriter {
 public:
  explicit TfRecordShard(std::unique_ptr<TfRecordWriter> writer) : writer_(std::move(writer)) {}

  absl::Status Write(const EncodedRecord& record) override { return writer_->Write(record.bytes); }
  absl::Status Close() override { return writer_->Close(); }

 private:
  const std::unique_ptr<TfRecordWriter> writer_;
};

absl::Status CheckNames(const Sample& sample) {
  std::vector<std::string_view> names;
  names.reserve(sample.size());
  for (const SampleFeature& feature : sample) names.push_back(feature.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() ? absl::OkStatus() : FeatureError(*twice, "is there twice");
}

absl::StatusOr<std::string> ToExample(const Sample& sample) {
  MILLRACE_RETURN_IF_ERROR(CheckNames(sample));
  ExampleBuilder example;
  for (const SampleFeature& feature : sample) {
    if (const auto* const list = std::get_if<std::vector<std::string>>(&feature.values)) {
      const std::vector<std::string_view> views(list->begin(), list->end());
      example.AddBytes(feature.name, views);
    } else if (const auto* const ints = std::get_if<std::vector<int64_t>>(&feature.values)) {
      example.AddInts(feature.name, *ints);
    } else {
      example.AddFloats(feature.name, std::get<std::vector<float>>(feature.values));
    }
  }
  return example.Serialize();
}

// Outputs whose records are any bytes: those of the record itself, or of a feature of the sample.
class BytesOutput : public ConvertOutput {
 public:
  BytesOutput(const ConvertOptions& options, bool as_samples)
      : options_(options), as_samples_(as_samples) {}

 protected:
  absl::StatusOr<std::string> BytesOf(ConvertRecord record) const {
    if (!as_samples_) return std::move(record.bytes);
    const SampleFeature* const feature = Find(record.sample, options_.feature);
    if (feature == nullptr) return FeatureError(options_.feature, "the sample has none");
    const std::string* const value = OneValue<std::string>(*feature);
    if (value == nullptr) return FeatureError(options_.feature, "is not one value of bytes");
    return *value;
  }

  const ConvertOptions& options_;
  const bool as_samples_;
};

class TfRecordOutput final : public BytesOutput {
 public:
  using BytesOutput::BytesOutput;

  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t) const override {
    if (!as_samples_) return EncodedRecord{.bytes = std::move(record.bytes)};
    MILLRACE_ASSIGN_OR_RETURN(std::string example, ToExample(record.sample));
    return EncodedRecord{.bytes = std::move(example)};
  }
  absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const override {
    MILLRACE_ASSIGN_OR_RETURN(
        auto writer, TfRecordWriter::Open(path, {.compression = options_.compression,
                                                 .compression_level = options_.compression_level}));
    return std::make_unique<TfRecordShard>(std::move(writer));
  }
};

class TextOutput final : public BytesOutput {
 public:
  using BytesOutput::BytesOutput;

  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t) const override {
    MILLRACE_ASSIGN_OR_RETURN(std::string line, BytesOf(std::move(record)));
    if (line.find_first_of("\r\n") != std::string::npos) {
      return absl::InvalidArgumentError(
          "text cannot hold it: there is a line break in it, which would end the record");
    }
    line += '\n';
    return EncodedRecord{.bytes = std::move(line)};
  }
  absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const override {
    return OpenFileShard(path, options_);
  }
};

class FixedLengthOutput final : public BytesOutput {
 public:
  using BytesOutput::BytesOutput;

  uint64_t record_bytes() const override { return record_bytes_; }
  bool needs_first() const override { return true; }
  absl::Status Begin(const std::vector<ConvertFeature>&, const ConvertRecord* first) override {
    if (first == nullptr) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, BytesOf(*first));
    record_bytes_ = bytes.size();
    if (record_bytes_ > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("fixed_length cannot hold records of no bytes");
  }
  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t) const override {
    MILLRACE_ASSIGN_OR_RETURN(std::string bytes, BytesOf(std::move(record)));
    if (bytes.size() != record_bytes_) {
      return absl::InvalidArgumentError(absl::StrCat("fixed_length cannot hold it: it has ",
                                                     bytes.size(), " bytes, and the first record ",
                                                     record_bytes_));
    }
    return EncodedRecord{.bytes = std::move(bytes)};
  }
  absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const override {
    return OpenFileShard(path, options_);
  }

 private:
  size_t record_bytes_ = 0;
};

template <typename Number>
std::string Text(Number value) {
  char text[32];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), value);
  return {text, end};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardWriter>> OpenFileShard(const std::string& path,
                                                           const ConvertOptions& options,
                                                           std::string_view header,
                                                           std::string footer) {
  MILLRACE_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  auto shard = std::make_unique<FileShard>(std::move(file), options, std::move(footer));
  MILLRACE_RETURN_IF_ERROR(shard->Append(header));
  return shard;
}

absl::Status FeatureError(std::string_view name, std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("feature '", ToAbsl(name), "': ", ToAbsl(text)));
}

std::string NumberText(int64_t value) { return Text(value); }
std::string NumberText(float value) { return Text(value); }

absl::StatusOr<std::string> OneValueText(const SampleFeature& feature) {
  if (feature.num_values() != 1) {
    return FeatureError(feature.name, absl::StrCat("has ", feature.num_values(),
                                                   " values, and there is room for one"));
  }
  if (const auto* const bytes = OneValue<std::string>(feature)) return *bytes;
  if (const auto* const number = OneValue<int64_t>(feature)) return NumberText(*number);
  const float value = *OneValue<float>(feature);
  std::string text = NumberText(value);
  float back = 0;
  const bool read = ParseFloat(text, &back) == nullptr;
  if (read && std::bit_cast<uint32_t>(back) == std::bit_cast<uint32_t>(value)) return text;
  return FeatureError(feature.name, "is a NaN of other bits than text stands for");
}

std::span<const std::string_view> ShardExtensions(ConvertFormat format) {
  static constexpr std::string_view kTfRecord[] = {".tfrecord", ".tfrecords"};
  static constexpr std::string_view kText[] = {".txt"};
  static constexpr std::string_view kFixedLength[] = {".bin"};
  static constexpr std::string_view kCsv[] = {".csv"};
  static constexpr std::string_view kJsonLines[] = {".jsonl", ".ndjson"};
  static constexpr std::string_view kTar[] = {".tar"};
  switch (format) {
    case ConvertFormat::kTfRecord:
      return kTfRecord;
    case ConvertFormat::kText:
      return kText;
    case ConvertFormat::kFixedLength:
      return kFixedLength;
    case ConvertFormat::kCsv:
      return kCsv;
    case ConvertFormat::kJsonLines:
      return kJsonLines;
    case ConvertFormat::kTar:
      return kTar;
    case ConvertFormat::kIdx:
    case ConvertFormat::kImages:
      break;
  }
  return {};
}

std::unique_ptr<ConvertOutput> MakeConvertOutput(const ConvertOptions& options, bool as_samples,
                                                 const std::vector<std::string>& class_names) {
  switch (options.to) {
    case ConvertFormat::kText:
      return std::make_unique<TextOutput>(options, as_samples);
    case ConvertFormat::kFixedLength:
      return std::make_unique<FixedLengthOutput>(options, as_samples);
    case ConvertFormat::kCsv:
      return MakeCsvOutput(options);
    case ConvertFormat::kJsonLines:
      return MakeJsonOutput(options);
    case ConvertFormat::kTar:
      return MakeTarOutput(options);
    case ConvertFormat::kIdx:
      return MakeIdxOutput(options);
    case ConvertFormat::kImages:
      return MakeImagesOutput(options, class_names);
    case ConvertFormat::kTfRecord:
      break;
  }
  return std::make_unique<TfRecordOutput>(options, as_samples);
}

}  // namespace millrace::readers::internal
