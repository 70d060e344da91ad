#ifndef MILLRACE_PIPELINE_STAGES_ROW_H_
#define MILLRACE_PIPELINE_STAGES_ROW_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "augment/batch_mixing.h"
#include "base/op.h"
#include "pipeline/pipeline.pb.h"
#include "pipeline/plan/physical.h"
#include "pipeline/stages/checker.h"
#include "pipeline/stages/specs.h"

// A stage is one row. All that the program has to know of a stage stands in the row: its options
// and their defaults, its checks, its place in a plan, the op that it becomes, and the text of its
// documentation. Rows are constants, in one file per family of stages; table.h looks them up.
//
// To add a stage, add its message to pipeline.proto and its row to a family's file; a new family
// takes one line of table.cc more. An op with options of a new C++ type is one more alternative of
// OpOptions. Then regenerate the tables of docs/pipeline.md, as the test stage_docs_test says.

namespace millrace::pipeline {

// One option of a stage, for people.
struct Option {
  const char* name = nullptr;   // the field of the stage's message
  const char* text = "";        // its meaning, in Markdown; may be empty
  const char* value = nullptr;  // the default in words; null: the value that `fill` sets
};

inline constexpr char kRequired[] = "required";

// The facts that rules and texts have to know of an op, by the type of its options.
struct OpRow {
  size_t index = 0;  // the number of the options' type in OpOptions
  // Name of the op; null: that of the stage.
  std::string (*name)(const OpOptions&) = nullptr;
  // Fields that the op reads, writes and removes.
  OpFields (*fields)(const OpOptions&) = nullptr;
  // True if the op draws random numbers.
  bool draws = false;
  // The part that may draw, of an op that others are a part of; null: there is none.
  OpOptions (*part)(const OpOptions&) = nullptr;
  // Makes the op; null: the program has none (filter, custom).
  absl::StatusOr<std::unique_ptr<Op>> (*make)(const OpOptions&, const std::string& stage) = nullptr;
};

// The options read from a stage that mixes the rows of whole batches.
struct MixingOfStage {
  augment::BatchMixingOptions options;
  // The number of classes of integer labels, which become one_hot before the batch; 0: labels are
  // float32 [classes] already.
  uint32_t num_classes = 0;
};

// A stage. Unused columns are null.
struct StageRow {
  proto::Stage::OpCase op_case = proto::Stage::OP_NOT_SET;
  const char* name = "";
  StageKind kind = StageKind::kMap;
  const char* doc = "";  // one sentence, in Markdown
  Option options[12] = {};

  // Sets the options that the text leaves out; null: there are none.
  void (*fill)(proto::Stage*) = nullptr;
  // INVALID_ARGUMENT with the place of the first option that is out of range; null: none can be.
  absl::Status (*check)(const OptionsChecker&, const proto::Stage&) = nullptr;

  // The part of a plan that a stage of each kind becomes. REQUIRES, of all of them: the stage is
  // filled in and checked.
  void (*source)(const proto::Stage&, SourceSpec*) = nullptr;  // but for joins
  void (*order)(const proto::Stage&, OrderStep*) = nullptr;
  void (*batch)(const proto::Stage&, BatchSpec*) = nullptr;
  OpOptions (*read)(const proto::Stage&) = nullptr;  // maps and cuts of samples, windows
  const OpRow* op = nullptr;                         // the op of the options that `read` returns
  MixingOfStage (*mixing)(const proto::Stage&) = nullptr;  // maps of whole batches

  // Facts.
  bool reads_files = false;   // true if it is a source whose `files` have many records each
  bool parses = false;        // true if it is a map that makes fields of nothing but the record
  bool keeps_values = false;  // true if it is a map of images that keeps the range of their values
  // True if an epoch of a plan with the stage may lack records of the source; null: never.
  bool (*skips_records)(const proto::Stage&) = nullptr;
  // True if the number of batches is known only by looking at records, or not at all before the
  // end; null: never.
  bool (*counts_by_records)(const proto::Stage&) = nullptr;
};

// Stages that belong together, in the order of the documentation.
struct StageFamily {
  const char* key = "";    // the key of the table in docs/pipeline.md
  const char* title = "";  // "Sources"
  std::span<const StageRow> rows;
};

extern const StageFamily kFileStages;
extern const StageFamily kSourceStages;
extern const StageFamily kOrderStages;
extern const StageFamily kParseStages;
extern const StageFamily kDecodeStages;
extern const StageFamily kGeometryStages;
extern const StageFamily kColorStages;
extern const StageFamily kDistortStages;
extern const StageFamily kLayoutStages;
extern const StageFamily kTokenStages;
extern const StageFamily kNumberStages;
extern const StageFamily kOtherStages;
extern const StageFamily kCutStages;
extern const StageFamily kBatchStages;
extern const StageFamily kMixupStages;

// Columns made of functions on a stage's own message, which kGet and kMutable of proto::Stage give.

template <auto kMutable, auto kFill>
void Fill(proto::Stage* stage) {
  kFill((stage->*kMutable)());
}

template <auto kGet, auto kCheck>
absl::Status Check(const OptionsChecker& check, const proto::Stage& stage) {
  return kCheck(check, (stage.*kGet)());
}

template <auto kGet, auto kTo>
OpOptions Read(const proto::Stage& stage) {
  return kTo((stage.*kGet)());
}

template <auto kGet, auto kTo, typename Spec>
void To(const proto::Stage& stage, Spec* spec) {
  kTo((stage.*kGet)(), spec);
}

// A fact that holds for any options of the stage.
inline bool Always(const proto::Stage&) { return true; }

// Columns made of functions on an op's own options.

template <typename Options, size_t kAt = 0>
constexpr size_t IndexOf() {
  using Alternative = std::variant_alternative_t<kAt, OpOptions>;
  if constexpr (std::is_same_v<Alternative, Options>) {
    return kAt;
  } else {
    return IndexOf<Options, kAt + 1>();
  }
}

// The op changes its fields in place: many by one op, or one.
template <typename Options>
OpFields InPlace(const OpOptions& options) {
  const Options& own = std::get<Options>(options);
  if constexpr (requires { own.fields; }) {
    return {own.fields, own.fields, {}, false};
  } else {
    return {{own.field}, {own.field}, {}, false};
  }
}

template <typename Options, auto kFields>
OpFields FieldsBy(const OpOptions& options) {
  return kFields(std::get<Options>(options));
}

template <typename Options, auto kMake>
absl::StatusOr<std::unique_ptr<Op>> MakeBy(const OpOptions& options, const std::string& stage) {
  const Options& own = std::get<Options>(options);
  if constexpr (std::is_invocable_v<decltype(kMake), const Options&, const std::string&>) {
    return kMake(own, stage);
  } else {
    return kMake(own);
  }
}

// Defaults that several families fill in.
inline void Default(std::string* field, const char* value) {
  if (field->empty()) *field = value;
}

// The defaults of an op that has `field`, "image", and no other.
template <typename Message>
void FillImageField(Message* message) {
  Default(message->mutable_field(), "image");
}

// The defaults of an op that changes the image with a probability of 1, if none is given.
template <typename Message>
void FillChange(Message* message) {
  FillImageField(message);
  if (!message->has_probability()) message->set_probability(1);
}

// Options that several families have.
inline constexpr Option kImageField = {"field", ""};
inline constexpr Option kProbability = {"probability", "otherwise the image stays as it is"};
inline constexpr Option kRequiredFields = {"field", "the fields that are changed", kRequired};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_ROW_H_
