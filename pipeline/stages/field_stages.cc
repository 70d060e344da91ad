#include <optional>
#include <vector>

#include "pipeline/plan/message.h"
#include "pipeline/plan/words.h"
#include "pipeline/stages/specs.h"

// Options of the stages that work on strings, tokens and numbers.

namespace millrace::pipeline {
namespace {

template <typename Field>
std::vector<Field> ListOf(const google::protobuf::RepeatedField<Field>& values) {
  return {values.begin(), values.end()};
}

template <typename Stage>
std::vector<std::string> FieldsOf(const Stage& stage) {
  return {stage.field().begin(), stage.field().end()};
}

augment::VocabularyOptions ToOptions(const proto::Vocabulary& vocabulary) {
  augment::VocabularyOptions options;
  options.fields = FieldsOf(vocabulary);
  options.output = vocabulary.output();
  options.file = vocabulary.file();
  if (vocabulary.has_default_id()) options.default_id = vocabulary.default_id();
  options.oov_buckets = vocabulary.oov_buckets();
  options.split = Find(kSplits, vocabulary.split()).value_or(false);
  options.digest = vocabulary.digest();
  return options;
}

augment::PadTokensOptions ToOptions(const proto::PadTokens& pad) {
  using Truncate = augment::PadTokensOptions::Truncate;
  return {.field = pad.field(),
          .length = pad.length(),
          .value = pad.value(),
          .left = Find(kSides, pad.side()).value_or(false),
          .truncate = Find(kTruncates, pad.truncate()).value_or(Truncate::kRight),
          .mask = pad.mask(),
          .lengths = pad.lengths()};
}

augment::ScaleOptions ToOptions(const proto::Scale& scale) {
  return {FieldsOf(scale), ListOf(scale.factor()), ListOf(scale.offset()), ListOf(scale.min()),
          ListOf(scale.max())};
}

augment::HashOptions ToOptions(const proto::Hash& hash) {
  return {FieldsOf(hash), ListOf(hash.num_bins()), ListOf(hash.salt())};
}

augment::ClipOptions ToOptions(const proto::Clip& clip) {
  augment::ClipOptions options{FieldsOf(clip), std::nullopt, std::nullopt};
  if (clip.has_min()) options.min = clip.min();
  if (clip.has_max()) options.max = clip.max();
  return options;
}

augment::FillMissingOptions ToOptions(const proto::FillMissing& fill) {
  augment::FillMissingOptions options{FieldsOf(fill), fill.value(), std::nullopt};
  if (fill.has_missing()) options.missing = fill.missing();
  return options;
}

}  // namespace

std::optional<OpOptions> FieldOptionsOf(const proto::Stage& stage) {
  switch (stage.op_case()) {
    case proto::Stage::kVocabulary:
      return ToOptions(stage.vocabulary());
    case proto::Stage::kPadTokens:
      return ToOptions(stage.pad_tokens());
    case proto::Stage::kScale:
      return ToOptions(stage.scale());
    case proto::Stage::kLog:
      return augment::LogOptions{FieldsOf(stage.log()), stage.log().min(), stage.log().offset()};
    case proto::Stage::kBucketize:
      return augment::BucketizeOptions{FieldsOf(stage.bucketize()),
                                       ListOf(stage.bucketize().boundary()),
                                       stage.bucketize().right()};
    case proto::Stage::kHash:
      return ToOptions(stage.hash());
    case proto::Stage::kClip:
      return ToOptions(stage.clip());
    case proto::Stage::kFillMissing:
      return ToOptions(stage.fill_missing());
    case proto::Stage::kStack:
      return augment::StackOptions{FieldsOf(stage.stack()), stage.stack().output()};
    default:
      return std::nullopt;
  }
}

}  // namespace millrace::pipeline
