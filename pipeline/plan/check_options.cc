#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "pipeline/order/order.h"
#include "pipeline/plan/check.h"

// The range of every option of sources, order stages, cuts and batches; maps are in
// plan_check_maps.cc.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMaxBatch = uint64_t{1} << 31;  // rows
constexpr uint32_t kMaxPrefetch = 1024;
constexpr uint64_t kMaxRecord = uint64_t{1} << 40;
constexpr uint64_t kMaxCycle = 1 << 16;  // open files

class StageChecker : public OptionsChecker {
 public:
  using OptionsChecker::OptionsChecker;

  // `files` and `compression`.
  template <typename Files>
  absl::Status FilesOf(const Files& source) const;
  // And `max_record_bytes`.
  template <typename Files>
  absl::Status Source(const Files& source) const {
    MILLRACE_RETURN_IF_ERROR(FilesOf(source));
    return MaxRecordBytes(source.max_record_bytes());
  }
  absl::Status TfRecord(const proto::TfRecord& source) const;
  absl::Status FixedLength(const proto::FixedLength& source) const;
  absl::Status Csv(const proto::Csv& source) const;
  absl::Status ImageFolder(const proto::ImageFolder& source) const;
  absl::Status Mix(const proto::Mix& mix) const;
  absl::Status Zip(const proto::Zip& zip) const;
  absl::Status Interleave(const proto::Interleave& interleave) const;
  absl::Status Shard(const proto::Shard& shard) const;
  absl::Status GlobalShuffle(const proto::GlobalShuffle& shuffle) const;
  absl::Status Filter(const proto::Filter& filter) const;
  absl::Status Unbatch(const proto::Unbatch& unbatch) const {
    return DistinctFields(unbatch.field());
  }
  absl::Status Padded(const proto::PaddedBatch& batch) const;
  absl::Status Bucket(const proto::BucketByLength& bucket) const;

  absl::Status HasInputs(int num_inputs) const {
    return num_inputs > 0 ? absl::OkStatus() : Error("input", ": none given; name at least one");
  }
  absl::Status BatchSize(uint64_t size) const { return InRange("size", size, 1, kMaxBatch); }

 private:
  absl::Status DaliIndex(const proto::TfRecord& source) const;
  absl::Status MaxRecordBytes(uint64_t bytes) const {
    return InRange("max_record_bytes", bytes, 1, kMaxRecord);
  }
  // Each names a field, and no two the same.
  absl::Status DistinctFields(const google::protobuf::RepeatedPtrField<std::string>& fields) const;
  template <typename Paddings>
  absl::Status CheckPaddings(const Paddings& paddings) const;
};

template <typename Files>
absl::Status StageChecker::FilesOf(const Files& source) const {
  if (source.files().empty()) return Error("files", " is empty; name at least one file or pattern");
  for (int i = 0; i < source.files_size(); ++i) {
    if (source.files(i).empty()) return Error("files", " has an empty name", i);
  }
  const std::vector<std::string> known = {"auto", "none", "gzip", "zlib", "zstd"};
  if (std::ranges::find(known, source.compression()) == known.end()) {
    return Error("compression", absl::StrCat(" \"", source.compression(), "\" is not known",
                                             DidYouMean(source.compression(), known)));
  }
  return absl::OkStatus();
}

absl::Status StageChecker::TfRecord(const proto::TfRecord& source) const {
  MILLRACE_RETURN_IF_ERROR(Source(source));
  MILLRACE_RETURN_IF_ERROR(DaliIndex(source));
  if (source.access_point_bytes() != 0) {
    MILLRACE_RETURN_IF_ERROR(InRange("access_point_bytes", source.access_point_bytes(),
                                     uint64_t{4} << 10, uint64_t{16} << 20));
  }
  const std::vector<std::string> ios = {"pread", "mmap", "direct"};
  if (std::ranges::find(ios, source.io()) != ios.end()) return absl::OkStatus();
  return Error("io",
               absl::StrCat(" \"", source.io(), "\" is not known", DidYouMean(source.io(), ios)));
}

absl::Status StageChecker::DaliIndex(const proto::TfRecord& source) const {
  if (source.dali_index().empty()) return absl::OkStatus();
  for (int i = 0; i < source.dali_index_size(); ++i) {
    if (source.dali_index(i).empty()) return Error("dali_index", " has an empty name", i);
  }
  if (source.skip_crc()) {
    return Error("skip_crc",
                 " cannot stand beside dali_index: the checksums are what tells a wrong one");
  }
  if (source.compression() == "auto" || source.compression() == "none") return absl::OkStatus();
  return Error("compression", absl::StrCat(" is \"", source.compression(),
                                           "\", but dali_index is of plain files"));
}

absl::Status StageChecker::FixedLength(const proto::FixedLength& source) const {
  MILLRACE_RETURN_IF_ERROR(FilesOf(source));
  MILLRACE_RETURN_IF_ERROR(InRange("record_bytes", source.record_bytes(), 1, kMaxRecord));
  MILLRACE_RETURN_IF_ERROR(InRange("header_bytes", source.header_bytes(), 0, kMaxRecord));
  return InRange("footer_bytes", source.footer_bytes(), 0, kMaxRecord);
}

absl::Status StageChecker::Csv(const proto::Csv& source) const {
  MILLRACE_RETURN_IF_ERROR(Source(source));
  const std::string& delimiter = source.delimiter();
  if (delimiter.size() == 1 && delimiter.find_first_of("\"\r\n") == delimiter.npos) {
    return absl::OkStatus();
  }
  return Error("delimiter", " must be one ASCII character, and neither a quote nor a line break");
}

absl::Status StageChecker::ImageFolder(const proto::ImageFolder& source) const {
  if (source.path().empty()) return Error("path", " is empty; name the folder of the images");
  return MaxRecordBytes(source.max_record_bytes());
}

absl::Status StageChecker::Mix(const proto::Mix& mix) const {
  MILLRACE_RETURN_IF_ERROR(HasInputs(mix.input_size()));
  if (mix.weight_size() != mix.input_size()) {
    return Error("weight", absl::StrCat(" has ", mix.weight_size(), " numbers for ",
                                        mix.input_size(), " inputs"));
  }
  for (int i = 0; i < mix.weight_size(); ++i) {
    if (!(mix.weight(i) > 0) || !std::isfinite(mix.weight(i))) {
      return Error("weight", " must be > 0 and finite", i);
    }
  }
  return absl::OkStatus();
}

absl::Status StageChecker::Zip(const proto::Zip& zip) const {
  MILLRACE_RETURN_IF_ERROR(HasInputs(zip.input_size()));
  if (zip.field_size() != zip.input_size()) {
    return Error("field", absl::StrCat(" names ", zip.field_size(), " fields for ",
                                       zip.input_size(), " inputs; each input's samples need one"));
  }
  return DistinctFields(zip.field());
}

absl::Status StageChecker::Interleave(const proto::Interleave& interleave) const {
  MILLRACE_RETURN_IF_ERROR(InRange("cycle_length", interleave.cycle_length(), 1, kMaxCycle));
  return InRange("block_length", interleave.block_length(), 1, kMaxCount - 1);
}

absl::Status StageChecker::Shard(const proto::Shard& shard) const {
  MILLRACE_RETURN_IF_ERROR(InRange("num_shards", shard.num_shards(), 1, kMaxShards));
  return InRange("index", shard.index(), 0, shard.num_shards() - 1);
}

absl::Status StageChecker::GlobalShuffle(const proto::GlobalShuffle& shuffle) const {
  if (shuffle.window() == 0 || shuffle.block_bytes() != 0) return absl::OkStatus();
  return Error("window", " mixes blocks; it needs block_bytes");
}

absl::Status StageChecker::Filter(const proto::Filter& filter) const {
  if (filter.predicate().empty()) {
    return Error("predicate", " is empty; say what is kept (\"label < 10\")");
  }
  return absl::OkStatus();
}

absl::Status StageChecker::DistinctFields(
    const google::protobuf::RepeatedPtrField<std::string>& fields) const {
  std::set<std::string> seen;
  for (int i = 0; i < fields.size(); ++i) {
    if (fields[i].empty()) return Error("field", " must name a field", i);
    if (!seen.insert(fields[i]).second) {
      return Error("field", absl::StrCat(" \"", fields[i], "\" is there twice"), i);
    }
  }
  return absl::OkStatus();
}

template <typename Paddings>
absl::Status StageChecker::CheckPaddings(const Paddings& paddings) const {
  std::set<std::string> seen;
  for (int i = 0; i < paddings.size(); ++i) {
    const proto::Padding& padding = paddings[i];
    const auto bad = [&](const std::string& what) {
      return ErrorAt({{op_name()}, {"padding", i}, {"field"}}, what);
    };
    if (padding.field().empty()) return bad("a padding must name a field");
    if (!seen.insert(padding.field()).second) {
      return bad(absl::StrCat("field \"", padding.field(), "\" has two paddings"));
    }
  }
  return absl::OkStatus();
}

absl::Status StageChecker::Padded(const proto::PaddedBatch& batch) const {
  MILLRACE_RETURN_IF_ERROR(BatchSize(batch.size()));
  return CheckPaddings(batch.padding());
}

absl::Status StageChecker::Bucket(const proto::BucketByLength& bucket) const {
  MILLRACE_RETURN_IF_ERROR(HasName("field", bucket.field()));
  if (bucket.boundary().empty()) {
    return Error("boundary", ": none given; padded_batch does without");
  }
  uint64_t last = 0;
  for (int i = 0; i < bucket.boundary_size(); ++i) {
    if (bucket.boundary(i) <= last) return Error("boundary", " must ascend, from 1 on", i);
    last = bucket.boundary(i);
  }
  MILLRACE_RETURN_IF_ERROR(InRange("boundary", last, 1, kMaxElements, bucket.boundary_size() - 1));
  if (bucket.batch_size_size() != bucket.boundary_size() + 1) {
    return Error("batch_size", absl::StrCat(" has ", bucket.batch_size_size(), " numbers; ",
                                            bucket.boundary_size(), " boundaries make ",
                                            bucket.boundary_size() + 1, " buckets"));
  }
  for (int i = 0; i < bucket.batch_size_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(InRange("batch_size", bucket.batch_size(i), 1, kMaxBatch, i));
  }
  return CheckPaddings(bucket.padding());
}

}  // namespace

absl::Status CheckStageOptions(const PipelineAt& at, int i) {
  const proto::Stage& stage = at.pipeline->stage(i);
  const StageChecker check(at, i);
  switch (stage.op_case()) {
    case proto::Stage::kTfrecord:
      return check.TfRecord(stage.tfrecord());
    case proto::Stage::kFixedLength:
      return check.FixedLength(stage.fixed_length());
    case proto::Stage::kText:
      return check.Source(stage.text());
    case proto::Stage::kCsv:
      return check.Csv(stage.csv());
    case proto::Stage::kTar:
      return check.Source(stage.tar());
    case proto::Stage::kIdx:
      return check.Source(stage.idx());
    case proto::Stage::kImageFolder:
      return check.ImageFolder(stage.image_folder());
    case proto::Stage::kMemory:
      return absl::OkStatus();
    case proto::Stage::kRange:
      return check.InRange("count", stage.range().count(), 1, kMaxCount - 1);
    case proto::Stage::kConcatenate:
      return check.HasInputs(stage.concatenate().input_size());
    case proto::Stage::kMix:
      return check.Mix(stage.mix());
    case proto::Stage::kZip:
      return check.Zip(stage.zip());
    case proto::Stage::kInterleave:
      return check.Interleave(stage.interleave());
    case proto::Stage::kShuffle:
      return check.InRange("buffer_size", stage.shuffle().buffer_size(), 1, kMaxShuffleBuffer);
    case proto::Stage::kShard:
      return check.Shard(stage.shard());
    case proto::Stage::kGlobalShuffle:
      return check.GlobalShuffle(stage.global_shuffle());
    case proto::Stage::kTake:
      return check.InRange("count", stage.take().count(), 1, UINT64_MAX);
    case proto::Stage::kSkip:
      return check.InRange("count", stage.skip().count(), 1, UINT64_MAX);
    case proto::Stage::kFilter:
      return check.Filter(stage.filter());
    case proto::Stage::kUnbatch:
      return check.Unbatch(stage.unbatch());
    case proto::Stage::kBatch:
      return check.BatchSize(stage.batch().size());
    case proto::Stage::kPaddedBatch:
      return check.Padded(stage.padded_batch());
    case proto::Stage::kRaggedBatch:
      return check.BatchSize(stage.ragged_batch().size());
    case proto::Stage::kBucketByLength:
      return check.Bucket(stage.bucket_by_length());
    case proto::Stage::kPrefetch:
      return check.InRange("batches", stage.prefetch().batches(), 0, kMaxPrefetch);
    default:
      return CheckMapOptions(at, i);
  }
}

}  // namespace millrace::pipeline
