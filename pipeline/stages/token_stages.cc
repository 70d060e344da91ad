#include "pipeline/stages/convert.h"
#include "pipeline/stages/fields.h"
#include "pipeline/stages/row.h"

// Maps of strings and tokens.

namespace millrace::pipeline {
namespace {

using proto::Stage;

constexpr uint64_t kMaxLength = 1 << 24;

void FillVocabulary(proto::Vocabulary* vocabulary) { Default(vocabulary->mutable_split(), "none"); }

absl::Status CheckVocabulary(const OptionsChecker& check, const proto::Vocabulary& vocabulary) {
  MILLRACE_RETURN_IF_ERROR(check.AreFields(vocabulary.field()));
  if (!vocabulary.output().empty() && vocabulary.field_size() > 1) {
    return check.Error("output", " is the name of one field, not of several");
  }
  if (vocabulary.file().empty()) {
    return check.Error("file", " must name a file of one token per line");
  }
  if (vocabulary.has_default_id() && vocabulary.oov_buckets() > 0) {
    return check.Error("default_id", " stands instead of oov_buckets");
  }
  return check.IsOneOf("split", kSplits, vocabulary.split());
}

OpOptions ToVocabulary(const proto::Vocabulary& vocabulary) {
  augment::VocabularyOptions options;
  options.fields = ToVector(vocabulary.field());
  options.output = vocabulary.output();
  options.file = vocabulary.file();
  if (vocabulary.has_default_id()) options.default_id = vocabulary.default_id();
  options.oov_buckets = vocabulary.oov_buckets();
  options.split = Find(kSplits, vocabulary.split()).value_or(false);
  options.digest = vocabulary.digest();
  return options;
}

OpFields FieldsOfVocabulary(const augment::VocabularyOptions& vocabulary) {
  if (vocabulary.output.empty()) return {vocabulary.fields, vocabulary.fields, {}, false};
  return Consumed(vocabulary.fields, vocabulary.output);
}

void FillPadTokens(proto::PadTokens* pad) {
  Default(pad->mutable_field(), "tokens");
  Default(pad->mutable_side(), "right");
  Default(pad->mutable_truncate(), "right");
}

absl::Status CheckPadTokens(const OptionsChecker& check, const proto::PadTokens& pad) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("length", pad.length(), 1, kMaxLength));
  MILLRACE_RETURN_IF_ERROR(check.IsFinite("value", pad.value()));
  MILLRACE_RETURN_IF_ERROR(check.IsOneOf("side", kSides, pad.side()));
  MILLRACE_RETURN_IF_ERROR(check.IsOneOf("truncate", kTruncates, pad.truncate()));
  if (pad.mask() == pad.field()) return check.Error("mask", " must be another name than field");
  if (pad.lengths().empty()) return absl::OkStatus();
  if (pad.lengths() != pad.field() && pad.lengths() != pad.mask()) return absl::OkStatus();
  return check.Error("lengths", " must be another name than field and mask");
}

OpOptions ToPadTokens(const proto::PadTokens& pad) {
  using Truncate = augment::PadTokensOptions::Truncate;
  return augment::PadTokensOptions{
      .field = pad.field(),
      .length = pad.length(),
      .value = pad.value(),
      .left = Find(kSides, pad.side()).value_or(false),
      .truncate = Find(kTruncates, pad.truncate()).value_or(Truncate::kRight),
      .mask = pad.mask(),
      .lengths = pad.lengths()};
}

OpFields FieldsOfPadTokens(const augment::PadTokensOptions& pad) {
  OpFields fields{{pad.field}, {pad.field}, {}, false};
  for (const std::string& added : {pad.mask, pad.lengths}) {
    if (!added.empty()) fields.adds.push_back(added);
  }
  fields.writes.insert(fields.writes.end(), fields.adds.begin(), fields.adds.end());
  return fields;
}

constexpr OpRow kVocabularyOp = {
    .index = IndexOf<augment::VocabularyOptions>(),
    .fields = FieldsBy<augment::VocabularyOptions, FieldsOfVocabulary>,
    .make = MakeBy<augment::VocabularyOptions, augment::MakeVocabulary>};
constexpr OpRow kPadTokensOp = {.index = IndexOf<augment::PadTokensOptions>(),
                                .fields = FieldsBy<augment::PadTokensOptions, FieldsOfPadTokens>,
                                .make = MakeBy<augment::PadTokensOptions, augment::MakePadTokens>};

constexpr StageRow kTokenRows[] = {
    {.op_case = Stage::kVocabulary,
     .name = "vocabulary",
     .doc = "Strings become int64 ids: the number of a token's line in a file, from 0.",
     .options =
         {{"field", "bytes fields", kRequired},
          {"file", "one token per line", kRequired},
          {"default_id", "of a token that the file does not have",
           "none: it is an error of the row"},
          {"oov_buckets", "instead: lines plus the place of the token's hash among so many"},
          {"split",
           R"(`"none"`: a value is a token; `"whitespace"`: it is text, and becomes the ids )"
           "of its words, [words]"},
          {"digest", "of the file's bytes (XXH3, 64 bits); another file is an error",
           "the file's own"},
          {"output", "of one field, its new name", "the field"}},
     .fill = Fill<&Stage::mutable_vocabulary, FillVocabulary>,
     .check = Check<&Stage::vocabulary, CheckVocabulary>,
     .read = Read<&Stage::vocabulary, ToVocabulary>,
     .op = &kVocabularyOp},
    {.op_case = Stage::kPadTokens,
     .name = "pad_tokens",
     .doc = "Rows of tokens [n] become rows of one length.",
     .options = {{"field", ""},
                 {"length", "tokens of each row", kRequired},
                 {"value", "of the tokens that are added"},
                 {"side", R"(where they are added: `"right"` or `"left"`)"},
                 {"truncate",
                  R"(where a longer row loses tokens: `"right"` or `"left"`; `"none"`: it is an )"
                  "error"},
                 {"mask", "a new int64 field [length]: 1 for a token, 0 for what was added",
                  "none"},
                 {"lengths", "a new int64 field: how many tokens were kept", "none"}},
     .fill = Fill<&Stage::mutable_pad_tokens, FillPadTokens>,
     .check = Check<&Stage::pad_tokens, CheckPadTokens>,
     .read = Read<&Stage::pad_tokens, ToPadTokens>,
     .op = &kPadTokensOp},
};

}  // namespace

constinit const StageFamily kTokenStages = {"tokens", "Strings and tokens", kTokenRows};

}  // namespace millrace::pipeline
