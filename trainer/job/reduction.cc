#include "trainer/job/reduction.h"

#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace millrace::trainer {
namespace {

using collectives::ProgressPolicy;

constexpr uint32_t kMaxAccumulateSteps = 1 << 20;
constexpr uint32_t kMaxStaleSteps = 16;  // StaleReducer's
constexpr uint64_t kMaxBucketBytes = uint64_t{1} << 44;
constexpr uint64_t kBucketBytes = 25 << 20;
constexpr uint64_t kEdgeBucketBytes = 1 << 20;

void AtMost(uint64_t value, uint64_t most, std::string_view field, FieldChecks& checks) {
  checks.Require(value <= most, {{"reduction"}, {field}}, absl::StrCat(value, " is over ", most));
}

std::string NotOneOf(const std::string& value, std::string_view words) {
  return absl::StrCat("\"", absl::CEscape(value), "\" is not ", ToAbsl(words));
}

void CheckRanges(const Reduction& reduction, FieldChecks& checks) {
  checks.Require(!reduction.has_accumulate_steps() || reduction.accumulate_steps() > 0,
                 {{"reduction"}, {"accumulate_steps"}}, "0 must be 1 or more");
  AtMost(reduction.accumulate_steps(), kMaxAccumulateSteps, "accumulate_steps", checks);
  checks.AtLeastZero(reduction.clip_norm(), {{"reduction"}, {"clip_norm"}});
  checks.Require(reduction.wire_dtype().empty() || WireOf(reduction.wire_dtype()),
                 {{"reduction"}, {"wire_dtype"}},
                 NotOneOf(reduction.wire_dtype(), "float32, float16 or bfloat16"));
  checks.Require(reduction.progress_policy().empty() || PolicyOf(reduction.progress_policy()),
                 {{"reduction"}, {"progress_policy"}},
                 NotOneOf(reduction.progress_policy(), "auto, inline or thread"));
  AtMost(reduction.stale_steps(), kMaxStaleSteps, "stale_steps", checks);
  AtMost(reduction.bucket_bytes(), kMaxBucketBytes, "bucket_bytes", checks);
  AtMost(reduction.edge_bucket_bytes(), kMaxBucketBytes, "edge_bucket_bytes", checks);
}

}  // namespace

std::optional<DType> WireOf(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (name == Name(dtype)) return dtype;
  }
  return std::nullopt;
}

std::optional<ProgressPolicy> PolicyOf(std::string_view name) {
  if (name == "auto") return ProgressPolicy::kAuto;
  if (name == "inline") return ProgressPolicy::kInline;
  if (name == "thread") return ProgressPolicy::kThread;
  return std::nullopt;
}

absl::Status SetField(const FieldValue& field, Reduction& reduction) {
  const auto* descriptor = Reduction::descriptor()->FindFieldByName(field.name);
  if (descriptor == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("reduction has no field '", field.name, "'"));
  }
  const bool is_text = descriptor->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING;
  const std::string value =
      is_text ? absl::StrCat("\"", absl::CEscape(field.value), "\"") : field.value;
  google::protobuf::TextFormat::Parser parser;
  SilentErrors silent;
  parser.RecordErrorsTo(&silent);
  if (parser.MergeFromString(absl::StrCat(field.name, ": ", value), &reduction)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("reduction.", field.name, ": it cannot be '", field.value, "'"));
}

std::optional<BadField> CheckReduction(const Reduction& reduction) {
  FieldChecks checks;
  CheckRanges(reduction, checks);
  const auto refuse = [&checks](bool refused, std::string_view field, const std::string& why) {
    checks.Require(!refused, {{"reduction"}, {field}}, why);
  };
  refuse(reduction.max_skipped_steps() > 0 && !reduction.skip_non_finite(), "max_skipped_steps",
         "it needs skip_non_finite");
  const bool wired = !reduction.wire_dtype().empty() && reduction.wire_dtype() != "float32";
  refuse(reduction.exact() && wired, "exact", "it goes with no narrower wire_dtype");
  refuse(reduction.exact() && reduction.shard_optimizer(), "exact",
         "it does not go with shard_optimizer");
  const bool is_late = reduction.stale_steps() > 0;
  refuse(!is_late && reduction.synchronous_tail() > 0, "synchronous_tail", "it needs stale_steps");
  refuse(is_late && reduction.accumulate_steps() > 1, "stale_steps",
         "it does not go with accumulate_steps");
  refuse(is_late && reduction.shard_optimizer(), "stale_steps",
         "it does not go with shard_optimizer");
  return checks.first();
}

void FillDefaults(Reduction& reduction) {
  if (reduction.accumulate_steps() == 0) reduction.set_accumulate_steps(1);
  if (reduction.wire_dtype().empty()) reduction.set_wire_dtype(std::string(Name(DType::kF32)));
  if (reduction.progress_policy().empty()) reduction.set_progress_policy("auto");
  if (reduction.stale_steps() > 0 && reduction.synchronous_tail() == 0) {
    reduction.set_synchronous_tail(1);
  }
  if (reduction.bucket_bytes() == 0) reduction.set_bucket_bytes(kBucketBytes);
  if (reduction.edge_bucket_bytes() == 0) {
    reduction.set_edge_bucket_bytes(std::min(kEdgeBucketBytes, reduction.bucket_bytes()));
  }
}

void KeepWhatWeightsDependOn(Reduction& reduction) {
  reduction.clear_max_skipped_steps();
  reduction.clear_exact();
  reduction.clear_shard_optimizer();
  reduction.clear_digest_every();
  reduction.clear_bucket_bytes();
  reduction.clear_edge_bucket_bytes();
  reduction.clear_progress_policy();
  if (reduction.accumulate_steps() == 1) reduction.clear_accumulate_steps();
  if (WireOf(reduction.wire_dtype()) == DType::kF32) reduction.clear_wire_dtype();
}

std::string Describe(const Reduction& reduction) {
  std::string text = "averaged over valid rows";
  if (reduction.accumulate_steps() > 1) {
    absl::StrAppend(&text, "; ", reduction.accumulate_steps(), " batches a step");
  }
  if (reduction.clip_norm() > 0) {
    absl::StrAppendFormat(&text, "; norm clipped to %g", reduction.clip_norm());
  }
  if (reduction.skip_non_finite()) {
    text += "; steps that are not finite skipped";
    if (reduction.max_skipped_steps() > 0) {
      absl::StrAppend(&text, ", at most ", reduction.max_skipped_steps(), " in a row");
    }
  }
  if (reduction.exact()) text += "; exact";
  if (WireOf(reduction.wire_dtype()) != DType::kF32) {
    absl::StrAppend(&text, "; ", reduction.wire_dtype(), " between hosts");
  }
  if (reduction.shard_optimizer()) text += "; optimizer state in shards";
  if (reduction.stale_steps() > 0) {
    absl::StrAppend(&text, "; ", reduction.stale_steps(), " steps late but for the last ",
                    reduction.synchronous_tail());
  }
  if (reduction.digest_every() > 0) {
    absl::StrAppend(&text, "; weights compared every ", reduction.digest_every(), " steps");
  }
  return text;
}

}  // namespace millrace::trainer
