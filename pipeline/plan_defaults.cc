#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/plan_message_internal.h"

// What a plan's text may leave out. A default is filled in here and nowhere else, so that the
// fingerprint, ToText and explain see the same plan whether it was written or not.

namespace millrace::pipeline {
namespace {

void Default(std::string* field, const char* value) {
  if (field->empty()) *field = value;
}

void FillSource(proto::TfRecord* source) {
  Default(source->mutable_compression(), "auto");
  if (source->max_record_bytes() == 0) source->set_max_record_bytes(uint64_t{1} << 30);
}

void FillParse(proto::ParseExample* parse) {
  for (proto::Feature& feature : *parse->mutable_feature()) {
    Default(feature.mutable_name(), feature.key().c_str());
  }
}

void FillDecode(proto::DecodeImage* decode) {
  Default(decode->mutable_field(), "image/encoded");
  Default(decode->mutable_output(), "image");
  if (decode->channels() == 0) decode->set_channels(3);
  if (decode->max_pixels() == 0) decode->set_max_pixels(uint64_t{1} << 28);
}

void FillCrop(proto::RandomResizedCrop* crop) {
  Default(crop->mutable_field(), "image");
  if (crop->area().empty()) {
    crop->add_area(0.08f);
    crop->add_area(1.0f);
  }
  if (crop->aspect().empty()) {
    crop->add_aspect(3.0f / 4);
    crop->add_aspect(4.0f / 3);
  }
}

void FillFlip(proto::Flip* flip) {
  Default(flip->mutable_field(), "image");
  if (!flip->has_probability()) flip->set_probability(0.5f);
}

void FillOp(proto::Stage* stage) {
  switch (stage->op_case()) {
    case proto::Stage::kTfrecord:
      return FillSource(stage->mutable_tfrecord());
    case proto::Stage::kParseExample:
      return FillParse(stage->mutable_parse_example());
    case proto::Stage::kDecodeImage:
      return FillDecode(stage->mutable_decode_image());
    case proto::Stage::kRandomResizedCrop:
      return FillCrop(stage->mutable_random_resized_crop());
    case proto::Stage::kResize:
      return Default(stage->mutable_resize()->mutable_field(), "image");
    case proto::Stage::kFlip:
      return FillFlip(stage->mutable_flip());
    case proto::Stage::kNormalize:
      return Default(stage->mutable_normalize()->mutable_field(), "image");
    case proto::Stage::kCast:
      if (!stage->cast().has_scale()) stage->mutable_cast()->set_scale(1.0f);
      return;
    case proto::Stage::kOneHot:
      return Default(stage->mutable_one_hot()->mutable_field(), "label");
    case proto::Stage::kPrefetch:
      if (stage->prefetch().batches() == 0) stage->mutable_prefetch()->set_batches(2);
      return;
    case proto::Stage::kGlobalShuffle:
    case proto::Stage::kRepeat:
    case proto::Stage::kTake:
    case proto::Stage::kSkip:
    case proto::Stage::kBatch:
    case proto::Stage::OP_NOT_SET:
    default:
      return;
  }
}

// The op's name, or the first of name_2, name_3, ... that no stage has.
void FillNames(proto::Pipeline* pipeline) {
  std::set<std::string> taken;
  for (const proto::Stage& stage : pipeline->stage()) taken.insert(stage.name());
  for (proto::Stage& stage : *pipeline->mutable_stage()) {
    if (!stage.name().empty() || stage.op_case() == proto::Stage::OP_NOT_SET) continue;
    const std::string& op = OpName(stage);
    std::string name = op;
    for (int n = 2; !taken.insert(name).second; ++n) name = absl::StrCat(op, "_", n);
    stage.set_name(name);
  }
}

}  // namespace

void FillDefaults(proto::Pipeline* pipeline) {
  if (pipeline->semantics_version() == 0) pipeline->set_semantics_version(kSemanticsVersion);
  for (proto::Stage& stage : *pipeline->mutable_stage()) FillOp(&stage);
  FillNames(pipeline);
}

}  // namespace millrace::pipeline
