#include <algorithm>
#include <set>
#include <string>

#include "pipeline/plan/limits.h"
#include "pipeline/stages/row.h"

// Batches, and how many of them are made ahead.

namespace millrace::pipeline {
namespace {

using proto::Stage;
using Kind = BatchSpec::Kind;

constexpr uint64_t kMaxBatch = uint64_t{1} << 31;  // rows
constexpr uint32_t kMaxPrefetch = 1024;

template <typename Batch>
void FillPadding(Batch* batch) {
  for (proto::Padding& padding : *batch->mutable_padding()) {
    if (padding.value_case() == proto::Padding::VALUE_NOT_SET) padding.set_int_value(0);
  }
}

template <typename Batch>
absl::Status CheckBatchSize(const OptionsChecker& check, const Batch& batch) {
  return check.InRange("size", batch.size(), 1, kMaxBatch);
}

template <typename Paddings>
absl::Status CheckPaddings(const OptionsChecker& check, const Paddings& paddings) {
  std::set<std::string> seen;
  for (int i = 0; i < paddings.size(); ++i) {
    const proto::Padding& padding = paddings[i];
    const auto bad = [&](const std::string& what) {
      return check.ErrorBelow({{check.op_name()}, {"padding", i}, {"field"}}, what);
    };
    if (padding.field().empty()) return bad("a padding must name a field");
    if (!seen.insert(padding.field()).second) {
      return bad(absl::StrCat("field \"", padding.field(), "\" has two paddings"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPadded(const OptionsChecker& check, const proto::PaddedBatch& batch) {
  MILLRACE_RETURN_IF_ERROR(CheckBatchSize(check, batch));
  return CheckPaddings(check, batch.padding());
}

absl::Status CheckBucket(const OptionsChecker& check, const proto::BucketByLength& bucket) {
  if (bucket.key().empty()) {
    MILLRACE_RETURN_IF_ERROR(check.HasName("field", bucket.field()));
  } else if (!bucket.field().empty()) {
    return check.Error("key", " stands instead of field");
  }
  if (bucket.boundary().empty()) {
    return check.Error("boundary", ": none given; padded_batch does without");
  }
  uint64_t last = 0;
  for (int i = 0; i < bucket.boundary_size(); ++i) {
    if (bucket.boundary(i) <= last) return check.Error("boundary", " must ascend, from 1 on", i);
    last = bucket.boundary(i);
  }
  MILLRACE_RETURN_IF_ERROR(
      check.InRange("boundary", last, 1, kMaxElements, bucket.boundary_size() - 1));
  if (bucket.batch_size_size() != bucket.boundary_size() + 1) {
    return check.Error("batch_size", absl::StrCat(" has ", bucket.batch_size_size(), " numbers; ",
                                                  bucket.boundary_size(), " boundaries make ",
                                                  bucket.boundary_size() + 1, " buckets"));
  }
  for (int i = 0; i < bucket.batch_size_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(check.InRange("batch_size", bucket.batch_size(i), 1, kMaxBatch, i));
  }
  return CheckPaddings(check, bucket.padding());
}

absl::Status CheckPrefetch(const OptionsChecker& check, const proto::Prefetch& prefetch) {
  return check.InRange("batches", prefetch.batches(), 0, kMaxPrefetch);
}

template <typename Batch>
void ToPadding(const Batch& batch, BatchSpec* spec) {
  for (const proto::Padding& padding : batch.padding()) {
    const bool is_float = padding.value_case() == proto::Padding::kFloatValue;
    spec->padding.push_back(
        {padding.field(), padding.int_value(),
         is_float ? padding.float_value() : static_cast<double>(padding.int_value())});
  }
}

template <typename Batch, Kind kKind>
void ToBatch(const Batch& batch, BatchSpec* spec) {
  spec->kind = kKind;
  spec->size = batch.size();
  spec->drop_remainder = batch.drop_remainder();
  if constexpr (requires { batch.padding(); }) ToPadding(batch, spec);
}

void ToBucket(const proto::BucketByLength& bucket, BatchSpec* spec) {
  spec->kind = Kind::kBucket;
  spec->size = *std::ranges::max_element(bucket.batch_size());
  spec->drop_remainder = bucket.drop_remainder();
  spec->length_is_value = !bucket.key().empty();
  spec->length_field = spec->length_is_value ? bucket.key() : bucket.field();
  spec->boundaries.assign(bucket.boundary().begin(), bucket.boundary().end());
  spec->bucket_sizes.assign(bucket.batch_size().begin(), bucket.batch_size().end());
  spec->pad_to_boundary = bucket.pad_to_bucket_boundary();
  spec->keep_lengths = bucket.keep_lengths();
  ToPadding(bucket, spec);
}

template <auto kGet>
bool DropsRemainder(const Stage& stage) {
  return (stage.*kGet)().drop_remainder();
}

constexpr Option kSize = {"size", "rows over all ranks", kRequired};
constexpr Option kDropRemainder = {"drop_remainder",
                                   "leave out a last batch that is not full; otherwise it is "
                                   "padded and masked"};
constexpr Option kPadding = {"padding", "of a field: `field` and `int_value` or `float_value`",
                             "0"};

constexpr StageRow kBatchRows[] = {
    {.op_case = Stage::kBatch,
     .name = "batch",
     .kind = StageKind::kBatch,
     .doc = "Rows whose fields have one shape each.",
     .options = {kSize, kDropRemainder},
     .check = Check<&Stage::batch, CheckBatchSize<proto::BatchStage>>,
     .batch = To<&Stage::batch, ToBatch<proto::BatchStage, Kind::kFixed>>,
     .skips_records = DropsRemainder<&Stage::batch>},
    {.op_case = Stage::kPaddedBatch,
     .name = "padded_batch",
     .kind = StageKind::kBatch,
     .doc = "Rows whose fields are padded to the largest of the batch, bytes to uint8.",
     .options = {kSize, kDropRemainder, kPadding},
     .fill = Fill<&Stage::mutable_padded_batch, FillPadding<proto::PaddedBatch>>,
     .check = Check<&Stage::padded_batch, CheckPadded>,
     .batch = To<&Stage::padded_batch, ToBatch<proto::PaddedBatch, Kind::kPadded>>,
     .skips_records = DropsRemainder<&Stage::padded_batch>},
    {.op_case = Stage::kRaggedBatch,
     .name = "ragged_batch",
     .kind = StageKind::kBatch,
     .doc = "Values of a field whose first extent differs, one row after the other, and "
            "`NAME/row_splits`, int64[rows + 1].",
     .options = {kSize, kDropRemainder},
     .check = Check<&Stage::ragged_batch, CheckBatchSize<proto::RaggedBatch>>,
     .batch = To<&Stage::ragged_batch, ToBatch<proto::RaggedBatch, Kind::kRagged>>,
     .skips_records = DropsRemainder<&Stage::ragged_batch>},
    {.op_case = Stage::kBucketByLength,
     .name = "bucket_by_length",
     .kind = StageKind::kBatch,
     .doc = "Padded batches of samples of similar length.",
     .options = {{"field", "its first extent is the length", "required without `key`"},
                 {"key", "instead: a field of one whole number, which is the length"},
                 {"boundary",
                  "ascending; bucket i holds lengths in [boundary i-1, boundary i), the last one "
                  "all that are longer",
                  kRequired},
                 {"batch_size", "rows of each bucket over all ranks, one more than boundaries",
                  kRequired},
                 kDropRemainder,
                 {"pad_to_bucket_boundary",
                  "pad to boundary - 1, not to the longest; a longer sample is an error"},
                 kPadding,
                 {"keep_lengths",
                  "look at all records once and keep the lengths beside the index; speed only"}},
     .fill = Fill<&Stage::mutable_bucket_by_length, FillPadding<proto::BucketByLength>>,
     .check = Check<&Stage::bucket_by_length, CheckBucket>,
     .batch = To<&Stage::bucket_by_length, ToBucket>,
     .skips_records = DropsRemainder<&Stage::bucket_by_length>,
     .counts_by_records = Always},
    {.op_case = Stage::kPrefetch,
     .name = "prefetch",
     .kind = StageKind::kPrefetch,
     .doc = "Behind the batch: batches that are made ahead of the consumer; speed only.",
     .options = {{"batches", "at most 1024", "0: 2, or up to 32 while they fit a MiB together"}},
     .check = Check<&Stage::prefetch, CheckPrefetch>},
};

}  // namespace

constinit const StageFamily kBatchStages = {"batches", "Batches", kBatchRows};

}  // namespace millrace::pipeline
