#include "readers/inspect.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "readers/example/parser.h"
#include "readers/image_header.h"
#include "readers/tools/scan.h"

namespace millrace::readers {
namespace {

using internal::FeatureEntry;
using internal::FeatureKind;
using internal::WireError;

// Adds the values of one record's feature to its report. A list that another kind follows in the
// same Feature does not count, so lists are decoded once for the kind and once for the values.
class KindSink {
 public:
  void Begin(FeatureKind kind) {
    kind_ = kind;
    ++num_begun_;
    num_values_ = 0;
  }
  void Bytes(std::string_view) { ++num_values_; }
  void Int(int64_t) { ++num_values_; }
  void Floats(std::string_view packed) { num_values_ += packed.size() / 4; }

  FeatureKind kind() const { return kind_; }
  int num_begun() const { return num_begun_; }
  uint64_t num_values() const { return num_values_; }

 private:
  FeatureKind kind_ = FeatureKind::kNone;
  int num_begun_ = 0;
  uint64_t num_values_ = 0;
};

class StatsSink {
 public:
  // Counts the values of the `number`th list only.
  StatsSink(int number, FeatureReport* report) : number_(number), report_(*report) {}

  void Begin(FeatureKind) { --number_; }
  void Bytes(std::string_view value) {
    if (number_ != 0) return;
    report_.byte_lengths.Add(value.size());
    const std::string_view format = GuessImageFormat(value);
    if (format.empty()) return;
    ++report_.image_formats[std::string(format)];
    if (format != "png" && format != "jpeg") return;
    const auto header = ReadImageHeader(value);
    if (!header.ok()) {
      ++report_.num_bad_images;
      return;
    }
    report_.image_heights.Add(header->height);
    report_.image_widths.Add(header->width);
    report_.image_channels.Add(header->channels);
  }
  void Int(int64_t value) {
    if (number_ == 0) report_.ints.Add(value);
  }
  void Floats(std::string_view packed) {
    for (size_t i = 0; number_ == 0 && i < packed.size(); i += 4) {
      float value;
      std::memcpy(&value, packed.data() + i, 4);
      if (std::isnan(value)) {
        ++report_.num_nan;
      } else {
        report_.floats.Add(value);
      }
    }
  }

 private:
  int number_;
  FeatureReport& report_;
};

// The facts about the features, over all records.
class FeatureTable {
 public:
  explicit FeatureTable(size_t max_features) : max_features_(max_features) {}

  // False: `payload` is no Example, and nothing was added.
  bool Add(std::string_view payload) {
    WireError error;
    if (!internal::CheckExample(payload, &error)) return false;
    std::map<std::string_view, FeatureEntry> entries;  // of a key given twice the later wins
    internal::VisitExample(payload, &error, [&](const FeatureEntry& entry) {
      entries.insert_or_assign(entry.key, entry);
    });
    for (const auto& [key, entry] : entries) AddFeature(payload, entry);
    return true;
  }

  std::vector<FeatureReport> Take() {
    std::vector<FeatureReport> reports;
    for (auto& [key, report] : reports_) reports.push_back(std::move(report));
    return reports;
  }
  uint64_t num_unfollowed() const { return num_unfollowed_; }

 private:
  void AddFeature(std::string_view payload, const FeatureEntry& entry) {
    auto it = reports_.find(entry.key);
    if (it == reports_.end()) {
      if (reports_.size() >= max_features_) {
        ++num_unfollowed_;
        return;
      }
      it = reports_.emplace(std::string(entry.key), FeatureReport()).first;
      it->second.key = it->first;
    }
    FeatureReport& report = it->second;
    WireError error;
    KindSink kind;
    internal::DecodeFeature(payload, entry, &error, kind);
    StatsSink stats(kind.num_begun(), &report);
    internal::DecodeFeature(payload, entry, &error, stats);
    Count(kind.kind(), report) += 1;
    if (kind.kind() != FeatureKind::kNone) report.num_values.Add(kind.num_values());
  }

  static uint64_t& Count(FeatureKind kind, FeatureReport& report) {
    switch (kind) {
      case FeatureKind::kBytes:
        return report.num_bytes;
      case FeatureKind::kFloat:
        return report.num_floats;
      case FeatureKind::kInt:
        return report.num_ints;
      case FeatureKind::kNone:
        break;
    }
    return report.num_none;
  }

  const size_t max_features_;
  uint64_t num_unfollowed_ = 0;
  std::map<std::string, FeatureReport, std::less<>> reports_;
};

void Accumulate(const ShardReport& shard, ShardReport* total) {
  total->file_bytes += shard.file_bytes;
  total->whole = total->whole && shard.whole;
  total->num_records += shard.num_records;
  total->payload_bytes += shard.payload_bytes;
  if (shard.record_bytes.min.has_value()) {
    total->record_bytes.Add(*shard.record_bytes.min);
    total->record_bytes.Add(*shard.record_bytes.max);
  }
  total->num_damaged += shard.num_damaged;
  total->num_not_examples += shard.num_not_examples;
}

ShardReport InspectShard(const std::string& file, const InspectOptions& options,
                         internal::ScanMeter& meter, FeatureTable& features) {
  ShardReport shard;
  shard.file = file;
  const auto on_record = [&](const Record& record) {
    ++shard.num_records;
    shard.payload_bytes += record.payload.size();
    shard.record_bytes.Add(record.payload.size());
    if (!features.Add(record.payload)) ++shard.num_not_examples;
  };
  const auto on_damage = [&](const absl::Status& status) {
    ++shard.num_damaged;
    if (shard.damages.size() >= options.max_damages_per_file) return;
    shard.damages.push_back(internal::ToDamagedPlace(status, file));
  };
  const internal::FileFacts facts = internal::ScanFile(
      file,
      {.compression = options.compression,
       .max_record_bytes = options.max_record_bytes,
       .max_records = options.max_records == 0 ? UINT64_MAX : options.max_records},
      meter, on_record, on_damage);
  shard.compression = facts.compression;
  shard.file_bytes = facts.file_bytes;
  shard.whole = facts.whole;
  if (!facts.unreadable.ok()) shard.unreadable = std::string(facts.unreadable.message());
  return shard;
}

}  // namespace

std::string_view FeatureReport::kind() const {
  const int kinds = (num_bytes > 0) + (num_floats > 0) + (num_ints > 0);
  if (kinds > 1) return "mixed";
  if (num_bytes > 0) return "bytes";
  if (num_floats > 0) return "float";
  return num_ints > 0 ? "int64" : "none";
}

absl::StatusOr<InspectReport> Inspect(std::span<const std::string> files,
                                      const InspectOptions& options, const ScanProgress& progress) {
  if (files.empty()) return absl::InvalidArgumentError("inspect: no files");
  InspectReport report;
  report.total.whole = true;
  FeatureTable features(options.max_features);
  internal::ScanMeter meter(files, progress);
  for (size_t i = 0; i < files.size(); ++i) {
    report.shards.push_back(InspectShard(files[i], options, meter, features));
    meter.FinishFile(i);
    Accumulate(report.shards.back(), &report.total);
    if (!report.shards.back().unreadable.empty()) ++report.num_unreadable;
  }
  report.features = features.Take();
  report.num_unfollowed_features = features.num_unfollowed();
  return report;
}

}  // namespace millrace::readers
