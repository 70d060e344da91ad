#include "readers/inspect.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/scan.h"
#include "readers/tools/feature_table.h"
#include "readers/tools/meter.h"
#include "readers/view_record.h"

namespace millrace::readers {
namespace {

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
  total->num_with_nan += shard.num_with_nan;
}

std::string WhyUnreadable(const ScanFacts& facts) {
  if (!facts.unreadable.ok()) return std::string(facts.unreadable.message());
  if (facts.unreadable_images.empty()) return "";
  const size_t more = facts.unreadable_images.size() - 1;
  return absl::StrCat(facts.unreadable_images[0].message,
                      more == 0 ? "" : absl::StrCat(" (and ", more, " more images)"));
}

// One file that is looked at.
class ShardInspection {
 public:
  ShardInspection(const std::string& file, const InspectOptions& options,
                  internal::FileMeter& meter, SameColumns& columns,
                  internal::FeatureTable& features)
      : options_(options),
        meter_(meter),
        columns_(columns),
        features_(features),
        kind_(KindOf(file, options.container)),
        viewer_(kind_) {
    shard_.file = file;
  }

  ShardReport Run() && {
    const ScanVisitor visitor = {
        .on_columns = [&](const auto& names) { return TakeColumns(names); },
        .on_record = [&](const ScannedRecord& record) { return Take(record.payload); },
        .on_damage = [&](const absl::Status& status) { return TakeDamage(status); },
        .advanced = [&](uint64_t bytes) { meter_.Advance(bytes); }};
    const ScanFacts facts = Scan(shard_.file,
                                 {.compression = options_.compression,
                                  .max_record_bytes = options_.max_record_bytes,
                                  .container = options_.container},
                                 visitor);
    shard_.holds = kind_.is_folder ? "images" : ToString(kind_.container);
    shard_.compression = facts.compression;
    shard_.file_bytes = facts.file_bytes;
    shard_.whole = facts.whole || is_enough();
    shard_.all_read = facts.whole;
    shard_.notes = facts.notes;
    shard_.unreadable = WhyUnreadable(facts);
    return std::move(shard_);
  }

 private:
  bool is_enough() const { return options_.max_records > 0 && seen_ == options_.max_records; }

  absl::Status TakeColumns(const absl::StatusOr<std::vector<std::string>>& names) {
    MILLRACE_RETURN_IF_ERROR(columns_.Check(shard_.file, names));
    viewer_.SetColumns(*names);
    return absl::OkStatus();
  }

  bool Take(std::string_view payload) {
    ++seen_;
    ++shard_.num_records;
    shard_.payload_bytes += payload.size();
    shard_.record_bytes.Add(payload.size());
    if (!AddFeatures(payload)) ++shard_.num_not_examples;
    return !is_enough();
  }

  // False: the record is not what its file should hold.
  bool AddFeatures(std::string_view payload) {
    if (!kind_.is_folder && kind_.container.kind == ContainerKind::kTfRecord) {
      return features_.AddExample(payload);
    }
    const auto values = viewer_.View(payload);
    if (values.ok()) features_.Add(*values, viewer_.widening());
    if (viewer_.needs_nan()) ++shard_.num_with_nan;
    return values.ok();
  }

  bool TakeDamage(const absl::Status& status) {
    ++seen_;
    ++shard_.num_damaged;
    if (shard_.damages.size() < options_.max_damages_per_file) {
      shard_.damages.push_back(internal::ToDamagedPlace(status, shard_.file));
    }
    return !is_enough();
  }

  const InspectOptions& options_;
  internal::FileMeter& meter_;
  SameColumns& columns_;
  internal::FeatureTable& features_;
  const ScanKind kind_;
  RecordViewer viewer_;
  uint64_t seen_ = 0;  // records and places of damage
  ShardReport shard_;
};

}  // namespace

std::string_view FeatureReport::kind() const {
  const bool has_numbers = num_floats + num_ints > 0;
  if (num_bytes > 0 && has_numbers && widening != Widening::kText) return "mixed";
  if (num_floats > 0 && num_ints > 0 && widening == Widening::kNone) return "mixed";
  if (num_bytes > 0) return "bytes";
  if (num_floats > 0) return "float";
  return num_ints > 0 ? "int64" : "none";
}

absl::StatusOr<InspectReport> Inspect(std::span<const std::string> files,
                                      const InspectOptions& options, const ScanProgress& progress) {
  if (files.empty()) return absl::InvalidArgumentError("inspect: no files");
  InspectReport report;
  report.total.whole = true;
  internal::FeatureTable features(options.max_features);
  internal::ScanMeter meter(files, progress);
  SameColumns columns;
  for (size_t i = 0; i < files.size(); ++i) {
    internal::FileMeter in_file(meter, i);
    report.shards.push_back(ShardInspection(files[i], options, in_file, columns, features).Run());
    in_file.Finish();
    Accumulate(report.shards.back(), &report.total);
    if (!report.shards.back().unreadable.empty()) ++report.num_unreadable;
  }
  report.features = features.Take();
  report.num_unfollowed_features = features.num_unfollowed();
  return report;
}

}  // namespace millrace::readers
