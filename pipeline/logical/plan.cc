#include "pipeline/plan.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <xxhash.h>

#include <utility>
#include <vector>

#include "augment/image_ops.h"
#include "base/status.h"
#include "pipeline/logical/logical.h"
#include "pipeline/plan/message.h"
#include "pipeline/plan/paths.h"
#include "pipeline/stages/feature_keys.h"
#include "readers/parse_example.h"

namespace millrace::pipeline {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace {

// Clears the fields that cannot change results, here and below.
void ClearIrrelevant(Message* message) {
  const Reflection* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->options().GetExtension(proto::performance) ||
        field->options().GetExtension(proto::path)) {
      reflection->ClearField(message, field);
    } else if (field->message_type() == nullptr) {
      continue;
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
        ClearIrrelevant(reflection->MutableRepeatedMessage(message, field, i));
      }
    } else {
      ClearIrrelevant(reflection->MutableMessage(message, field));
    }
  }
}

// The defaults of options that decode_image has got since.
void ClearDefaults(proto::DecodeImage* decode) {
  const augment::DecodeImageOptions defaults;
  if (decode->max_scans() == static_cast<uint32_t>(defaults.max_scans)) decode->clear_max_scans();
  if (decode->max_memory_bytes() == static_cast<uint64_t>(defaults.max_memory_bytes)) {
    decode->clear_max_memory_bytes();
  }
  if (decode->fancy_upsampling() == defaults.fancy_upsampling) decode->clear_fancy_upsampling();
}

// And those of random_resized_crop.
void ClearDefaults(proto::RandomResizedCrop* crop) {
  const augment::RandomResizedCropOptions defaults;
  if (crop->interpolation() == "bilinear") crop->clear_interpolation();
  if (crop->max_attempts() == static_cast<uint32_t>(defaults.max_attempts)) {
    crop->clear_max_attempts();
  }
}

// A feature for each key, as if the text had no lists in braces.
template <typename Parse>
void ExpandFeatures(Parse* parse) {
  *parse->mutable_feature() = Expanded(parse->feature());
  if constexpr (requires { parse->feature_list(); }) {
    *parse->mutable_feature_list() = Expanded(parse->feature_list());
  }
}

void ExpandFeatures(proto::Stage* stage) {
  if (stage->has_parse_example()) ExpandFeatures(stage->mutable_parse_example());
  if (stage->has_parse_sequence_example()) {
    ExpandFeatures(stage->mutable_parse_sequence_example());
  }
  if (stage->has_parse_csv()) ExpandFeatures(stage->mutable_parse_csv());
  if (stage->has_parse_json()) ExpandFeatures(stage->mutable_parse_json());
  if (stage->has_parse_tar()) ExpandFeatures(stage->mutable_parse_tar());
}

// The plan without what cannot change results; a stage that loses its op goes too.
proto::Pipeline Canonical(const proto::Pipeline& pipeline) {
  proto::Pipeline cleared = pipeline;
  ClearIrrelevant(&cleared);
  // One lane is what plans had before there were lanes: their fingerprints stay.
  if (cleared.lanes() == 1) cleared.clear_lanes();
  if (cleared.on_damage().policy() == "fail") cleared.clear_on_damage();
  proto::Pipeline canonical = cleared;
  canonical.clear_stage();
  for (proto::Stage& stage : *cleared.mutable_stage()) {
    ExpandFeatures(&stage);
    // And so for what parse_example read before it could read other fields.
    if (stage.parse_example().field() == readers::kRecordField)
      stage.mutable_parse_example()->clear_field();
    if (stage.has_decode_image()) ClearDefaults(stage.mutable_decode_image());
    if (stage.has_random_resized_crop()) {
      ClearDefaults(stage.mutable_random_resized_crop());
    }
    if (stage.op_case() != proto::Stage::OP_NOT_SET) *canonical.add_stage() = stage;
  }
  return canonical;
}

std::string DeterministicBytes(const Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  {
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

std::shared_ptr<PlanMessage> MessageOf(proto::Pipeline pipeline, TextLocations locations) {
  auto plan = std::make_shared<PlanMessage>();
  plan->pipeline = std::move(pipeline);
  plan->locations = std::move(locations);
  return plan;
}

// Fills in and checks a parsed plan, whose paths are resolved.
absl::StatusOr<std::shared_ptr<const PlanMessage>> Finish(std::shared_ptr<PlanMessage> plan) {
  FillDefaults(&plan->pipeline);
  MILLRACE_RETURN_IF_ERROR(CheckPlan(*plan));
  MILLRACE_RETURN_IF_ERROR(PinVocabularies(plan.get()));
  return plan;
}

}  // namespace

absl::StatusOr<Plan> Plan::FromFile(const std::string& path, const Variables& variables) {
  proto::Pipeline pipeline;
  MILLRACE_ASSIGN_OR_RETURN(TextLocations locations, LoadTextProto(path, variables, &pipeline));
  auto parsed = MessageOf(std::move(pipeline), std::move(locations));
  ResolvePaths(path, parsed.get());
  MILLRACE_ASSIGN_OR_RETURN(auto message, Finish(std::move(parsed)));
  return Plan(std::move(message));
}

absl::StatusOr<Plan> Plan::FromTextOfFile(std::string_view text, const std::string& path,
                                          const Variables& variables) {
  proto::Pipeline pipeline;
  MILLRACE_ASSIGN_OR_RETURN(TextLocations locations,
                            ParseTextProto(text, path, variables, &pipeline));
  auto parsed = MessageOf(std::move(pipeline), std::move(locations));
  ResolvePathsBeside(path, parsed.get());
  MILLRACE_ASSIGN_OR_RETURN(auto message, Finish(std::move(parsed)));
  return Plan(std::move(message));
}

absl::StatusOr<Plan> Plan::FromText(std::string_view text, const std::string& origin,
                                    const Variables& variables) {
  proto::Pipeline pipeline;
  MILLRACE_ASSIGN_OR_RETURN(TextLocations locations,
                            ParseTextProto(text, origin, variables, &pipeline));
  MILLRACE_ASSIGN_OR_RETURN(auto message,
                            Finish(MessageOf(std::move(pipeline), std::move(locations))));
  return Plan(std::move(message));
}

std::string Plan::ToText() const { return TextOf(message_->pipeline); }

uint64_t Plan::Fingerprint() const {
  const std::string bytes = DeterministicBytes(Canonical(message_->pipeline));
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace millrace::pipeline
