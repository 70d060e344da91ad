#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "augment/vocabulary.h"
#include "base/status.h"
#include "pipeline/plan/check.h"
#include "pipeline/plan/words.h"

// The range of every option of the maps of strings, tokens and numbers, and what their files are.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMaxLength = 1 << 24;
constexpr uint64_t kMaxBins = uint64_t{1} << 63;

using Vocabularies = decltype(PlanMessage::vocabularies);

class FieldChecker : public OptionsChecker {
 public:
  using OptionsChecker::OptionsChecker;

  absl::Status Vocabulary(const proto::Vocabulary& vocabulary) const;
  absl::Status PadTokens(const proto::PadTokens& pad) const;
  absl::Status Scale(const proto::Scale& scale) const;
  absl::Status Log(const proto::Log& log) const;
  absl::Status Bucketize(const proto::Bucketize& bucketize) const;
  absl::Status Hash(const proto::Hash& hash) const;
  absl::Status Clip(const proto::Clip& clip) const;
  absl::Status FillMissing(const proto::FillMissing& fill) const;
  absl::Status Stack(const proto::Stack& stack) const;

  // Reads a vocabulary's file, unless `files` has it, and sets its digest, or compares it.
  absl::Status Pin(proto::Vocabulary* vocabulary, Vocabularies* files) const;

 private:
  // The fields of a stage: some, all different.
  template <typename Names>
  absl::Status AreFields(const Names& names) const {
    if (names.empty()) return Error("field", ": none given; name those that are changed");
    std::set<std::string> seen;
    for (int i = 0; i < names.size(); ++i) {
      if (names[i].empty()) return Error("field", " must name a field", i);
      if (seen.insert(names[i]).second) continue;
      return Error("field", absl::StrCat(" \"", names[i], "\" is there twice"), i);
    }
    return absl::OkStatus();
  }

  // One number, or one per field.
  template <typename Numbers>
  absl::Status IsPerField(std::string_view option, const Numbers& numbers, int num_fields) const {
    if (numbers.size() == 1 || numbers.size() == num_fields) return absl::OkStatus();
    return Error(option, absl::StrCat(" has ", numbers.size(), " numbers but there are ",
                                      num_fields, " fields; give one, or one per field"));
  }

  template <typename Numbers>
  absl::Status AreFinite(std::string_view option, const Numbers& numbers) const {
    for (int i = 0; i < numbers.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(IsFinite(option, numbers[i], i));
    }
    return absl::OkStatus();
  }

  absl::Status IsFinite(std::string_view option, double value, int index = -1) const {
    return std::isfinite(value) ? absl::OkStatus() : Error(option, " must be finite", index);
  }

  template <typename Value, size_t kSize>
  absl::Status IsOneOf(std::string_view option, const Words<Value, kSize>& words,
                       const std::string& word) const {
    if (Find(words, word)) return absl::OkStatus();
    return Error(option, absl::StrCat(" is \"", word, "\" but must be ", ListOf(words)));
  }

  absl::Status IsMinMax(const proto::Scale& scale) const;
};

absl::Status FieldChecker::Vocabulary(const proto::Vocabulary& vocabulary) const {
  MILLRACE_RETURN_IF_ERROR(AreFields(vocabulary.field()));
  if (!vocabulary.output().empty() && vocabulary.field_size() > 1) {
    return Error("output", " is the name of one field, not of several");
  }
  if (vocabulary.file().empty()) return Error("file", " must name a file of one token per line");
  if (vocabulary.has_default_id() && vocabulary.oov_buckets() > 0) {
    return Error("default_id", " stands instead of oov_buckets");
  }
  return IsOneOf("split", kSplits, vocabulary.split());
}

absl::Status FieldChecker::Pin(proto::Vocabulary* vocabulary, Vocabularies* files) const {
  std::shared_ptr<const augment::Vocabulary>& loaded = (*files)[vocabulary->file()];
  if (loaded == nullptr) {
    absl::StatusOr<augment::Vocabulary> read = augment::Vocabulary::Load(vocabulary->file());
    if (!read.ok()) return Error("file", absl::StrCat(": ", read.status().message()));
    loaded = std::make_shared<const augment::Vocabulary>(*std::move(read));
  }
  if (vocabulary->digest() == 0) vocabulary->set_digest(loaded->digest());
  if (vocabulary->digest() == loaded->digest()) return absl::OkStatus();
  return Error("digest", absl::StrCat(" is ", vocabulary->digest(), " but that of ",
                                      vocabulary->file(), " is ", loaded->digest()));
}

absl::Status FieldChecker::PadTokens(const proto::PadTokens& pad) const {
  MILLRACE_RETURN_IF_ERROR(InRange("length", pad.length(), 1, kMaxLength));
  MILLRACE_RETURN_IF_ERROR(IsFinite("value", pad.value()));
  MILLRACE_RETURN_IF_ERROR(IsOneOf("side", kSides, pad.side()));
  MILLRACE_RETURN_IF_ERROR(IsOneOf("truncate", kTruncates, pad.truncate()));
  if (pad.mask() == pad.field()) return Error("mask", " must be another name than field");
  if (pad.lengths().empty()) return absl::OkStatus();
  if (pad.lengths() != pad.field() && pad.lengths() != pad.mask()) return absl::OkStatus();
  return Error("lengths", " must be another name than field and mask");
}

absl::Status FieldChecker::IsMinMax(const proto::Scale& scale) const {
  const int count = scale.field_size();
  MILLRACE_RETURN_IF_ERROR(IsPerField("min", scale.min(), count));
  MILLRACE_RETURN_IF_ERROR(IsPerField("max", scale.max(), count));
  for (int i = 0; i < count; ++i) {
    const int at = scale.max_size() == 1 ? 0 : i;
    const double min = scale.min(scale.min_size() == 1 ? 0 : i);
    const double max = scale.max(at);
    if (min < max && std::isfinite(max - min)) continue;
    return Error("max", absl::StrCat(" is ", max, " but must be finite and above min, ", min), at);
  }
  return absl::OkStatus();
}

absl::Status FieldChecker::Scale(const proto::Scale& scale) const {
  MILLRACE_RETURN_IF_ERROR(AreFields(scale.field()));
  if (!scale.min().empty() || !scale.max().empty()) {
    if (!scale.factor().empty()) return Error("factor", " has no meaning with min and max");
    if (!scale.offset().empty()) return Error("offset", " has no meaning with min and max");
    return IsMinMax(scale);
  }
  MILLRACE_RETURN_IF_ERROR(IsPerField("factor", scale.factor(), scale.field_size()));
  MILLRACE_RETURN_IF_ERROR(IsPerField("offset", scale.offset(), scale.field_size()));
  MILLRACE_RETURN_IF_ERROR(AreFinite("factor", scale.factor()));
  return AreFinite("offset", scale.offset());
}

absl::Status FieldChecker::Log(const proto::Log& log) const {
  MILLRACE_RETURN_IF_ERROR(AreFields(log.field()));
  MILLRACE_RETURN_IF_ERROR(IsFinite("min", log.min()));
  MILLRACE_RETURN_IF_ERROR(IsFinite("offset", log.offset()));
  const double least = log.min() + log.offset();
  if (least > 0) return absl::OkStatus();
  return Error("min", absl::StrCat(" + offset is ", least, " but must be > 0"));
}

absl::Status FieldChecker::Bucketize(const proto::Bucketize& bucketize) const {
  MILLRACE_RETURN_IF_ERROR(AreFields(bucketize.field()));
  const auto& boundary = bucketize.boundary();
  if (boundary.empty()) return Error("boundary", ": none given");
  MILLRACE_RETURN_IF_ERROR(AreFinite("boundary", boundary));
  for (int i = 1; i < boundary.size(); ++i) {
    if (boundary[i - 1] < boundary[i]) continue;
    return Error(
        "boundary",
        absl::StrCat(" ", boundary[i], " is not above the one before it, ", boundary[i - 1]), i);
  }
  return absl::OkStatus();
}

absl::Status FieldChecker::Hash(const proto::Hash& hash) const {
  MILLRACE_RETURN_IF_ERROR(AreFields(hash.field()));
  MILLRACE_RETURN_IF_ERROR(IsPerField("num_bins", hash.num_bins(), hash.field_size()));
  for (int i = 0; i < hash.num_bins_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(InRange("num_bins", hash.num_bins(i), 1, kMaxBins, i));
  }
  return IsPerField("salt", hash.salt(), hash.field_size());
}

absl::Status FieldChecker::Clip(const proto::Clip& clip) const {
  MILLRACE_RETURN_IF_ERROR(AreFields(clip.field()));
  if (!clip.has_min() && !clip.has_max()) return Error("min", ": none given, and no max");
  if (std::isnan(clip.min())) return Error("min", " must be a number");
  if (std::isnan(clip.max())) return Error("max", " must be a number");
  if (!clip.has_min() || !clip.has_max() || clip.min() <= clip.max()) return absl::OkStatus();
  return Error("max", absl::StrCat(" is ", clip.max(), " but min is ", clip.min()));
}

absl::Status FieldChecker::FillMissing(const proto::FillMissing& fill) const {
  MILLRACE_RETURN_IF_ERROR(AreFields(fill.field()));
  MILLRACE_RETURN_IF_ERROR(IsFinite("value", fill.value()));
  return IsFinite("missing", fill.missing());
}

absl::Status FieldChecker::Stack(const proto::Stack& stack) const {
  MILLRACE_RETURN_IF_ERROR(AreFields(stack.field()));
  return HasName("output", stack.output());
}

}  // namespace

absl::Status CheckFieldOptions(const PipelineAt& at, int i) {
  const proto::Stage& stage = at.pipeline->stage(i);
  const FieldChecker check(at, i);
  switch (stage.op_case()) {
    case proto::Stage::kVocabulary:
      return check.Vocabulary(stage.vocabulary());
    case proto::Stage::kPadTokens:
      return check.PadTokens(stage.pad_tokens());
    case proto::Stage::kScale:
      return check.Scale(stage.scale());
    case proto::Stage::kLog:
      return check.Log(stage.log());
    case proto::Stage::kBucketize:
      return check.Bucketize(stage.bucketize());
    case proto::Stage::kHash:
      return check.Hash(stage.hash());
    case proto::Stage::kClip:
      return check.Clip(stage.clip());
    case proto::Stage::kFillMissing:
      return check.FillMissing(stage.fill_missing());
    case proto::Stage::kStack:
      return check.Stack(stage.stack());
    default:
      return absl::OkStatus();
  }
}

absl::Status PinVocabularies(PlanMessage* plan) {
  for (int i = 0; i < plan->pipeline.stage_size(); ++i) {
    proto::Stage* const stage = plan->pipeline.mutable_stage(i);
    if (!stage->has_vocabulary()) continue;
    const PipelineAt at = PipelineAt::Whole(*plan);
    MILLRACE_RETURN_IF_ERROR(
        FieldChecker(at, i).Pin(stage->mutable_vocabulary(), &plan->vocabularies));
  }
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
