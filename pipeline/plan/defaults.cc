#include <initializer_list>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "augment/image_ops.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/carry.h"
#include "pipeline/stages/mixing.h"

// What a plan's text may leave out. A default is filled in here and nowhere else, so that the
// fingerprint, ToText and explain see the same plan whether it was written or not.

namespace millrace::pipeline {
namespace {

void Default(std::string* field, const char* value) {
  if (field->empty()) *field = value;
}

constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

template <typename Source>
void FillSource(Source* source) {
  Default(source->mutable_compression(), "auto");
  if (source->max_record_bytes() == 0) source->set_max_record_bytes(kMaxRecordBytes);
}

void FillTfRecord(proto::TfRecord* source) {
  FillSource(source);
  Default(source->mutable_io(), "pread");
}

void FillCsv(proto::Csv* csv) {
  FillSource(csv);
  Default(csv->mutable_delimiter(), ",");
}

void FillImageFolder(proto::ImageFolder* folder) {
  if (folder->max_record_bytes() == 0) folder->set_max_record_bytes(kMaxRecordBytes);
}

template <typename Parse>
void FillParse(Parse* parse) {
  Default(parse->mutable_field(), "record");
  for (proto::Feature& feature : *parse->mutable_feature()) {
    Default(feature.mutable_name(), feature.key().c_str());
  }
}

void FillSequence(proto::ParseSequenceExample* parse) {
  FillParse(parse);
  for (proto::FeatureList& list : *parse->mutable_feature_list()) {
    Default(list.mutable_name(), list.key().c_str());
  }
}

void FillCsv(proto::ParseCsv* parse) {
  FillParse(parse);
  Default(parse->mutable_delimiter(), ",");
  if (!parse->column().empty()) return;
  for (const proto::Feature& feature : parse->feature()) parse->add_column(feature.key());
}

void FillDecode(proto::DecodeImage* decode) {
  Default(decode->mutable_field(), "image/encoded");
  Default(decode->mutable_output(), "image");
  if (decode->channels() == 0) decode->set_channels(3);
  if (decode->max_pixels() == 0) decode->set_max_pixels(uint64_t{1} << 28);
  const augment::DecodeImageOptions defaults;
  if (decode->max_scans() == 0) decode->set_max_scans(static_cast<uint32_t>(defaults.max_scans));
  if (decode->max_memory_bytes() == 0) {
    decode->set_max_memory_bytes(static_cast<uint64_t>(defaults.max_memory_bytes));
  }
  if (!decode->has_fancy_upsampling()) decode->set_fancy_upsampling(defaults.fancy_upsampling);
}

void FillPeek(proto::PeekImageShape* peek) {
  Default(peek->mutable_field(), "image/encoded");
  Default(peek->mutable_output(), "image/shape");
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
  Default(crop->mutable_interpolation(), "bilinear");
  const augment::RandomResizedCropOptions defaults;
  if (crop->max_attempts() == 0) {
    crop->set_max_attempts(static_cast<uint32_t>(defaults.max_attempts));
  }
}

// Of an op that changes the image, always unless it says otherwise.
template <typename Change>
void FillChange(Change* change) {
  Default(change->mutable_field(), "image");
  if (!change->has_probability()) change->set_probability(1);
}

void FillSolarize(proto::Solarize* solarize) {
  FillChange(solarize);
  if (!solarize->has_threshold()) solarize->set_threshold(128);
}

void FillBlur(proto::GaussianBlur* blur) {
  FillChange(blur);
  if (!blur->sigma().empty()) return;
  blur->add_sigma(0.1f);
  blur->add_sigma(2);
}

using Floats = google::protobuf::RepeatedField<float>;

void Default(Floats* numbers, std::initializer_list<float> values) {
  if (numbers->empty()) numbers->Add(values.begin(), values.end());
}

void FillAffine(proto::Affine* affine) {
  FillChange(affine);
  Default(affine->mutable_degrees(), {0});
  Default(affine->mutable_translate(), {0, 0});
  Default(affine->mutable_scale(), {1});
  Default(affine->mutable_shear_x(), {0});
  Default(affine->mutable_shear_y(), {0});
  Default(affine->mutable_method(), "nearest");
}

void FillAutoAugment(proto::AutoAugment* augment) {
  Default(augment->mutable_field(), "image");
  Default(augment->mutable_policy(), "rand_augment");
  if (augment->num_ops() == 0) augment->set_num_ops(2);
  if (!augment->has_magnitude()) augment->set_magnitude(9);
  if (augment->num_magnitude_bins() == 0) augment->set_num_magnitude_bins(31);
  Default(augment->mutable_method(), "nearest");
}

void FillPadTokens(proto::PadTokens* pad) {
  Default(pad->mutable_field(), "tokens");
  Default(pad->mutable_side(), "right");
  Default(pad->mutable_truncate(), "right");
}

void FillScale(proto::Scale* scale) {
  if (!scale->min().empty() || !scale->max().empty()) return;
  if (scale->factor().empty()) scale->add_factor(1);
  if (scale->offset().empty()) scale->add_offset(0);
}

void FillLog(proto::Log* log) {
  if (!log->has_min()) log->set_min(0);
  if (!log->has_offset()) log->set_offset(1);
}

void FillAugMix(proto::AugMix* mix) {
  Default(mix->mutable_field(), "image");
  if (mix->severity() == 0) mix->set_severity(3);
  if (mix->mixture_width() == 0) mix->set_mixture_width(3);
  if (!mix->has_alpha()) mix->set_alpha(1);
  if (!mix->has_all_ops()) mix->set_all_ops(true);
  Default(mix->mutable_method(), "bilinear");
}

void FillSmoothing(proto::LabelSmoothing* smoothing) {
  Default(smoothing->mutable_field(), "label");
  if (!smoothing->has_smoothing()) smoothing->set_smoothing(0.1f);
}

void FillErasing(proto::RandomErasing* erasing) {
  Default(erasing->mutable_field(), "image");
  Default(erasing->mutable_area(), {0.02f, 0.33f});
  Default(erasing->mutable_aspect(), {0.3f, 3.3f});
  if (!erasing->has_probability()) erasing->set_probability(0.5f);
}

void FillFlip(proto::Flip* flip) {
  Default(flip->mutable_field(), "image");
  if (!flip->has_probability()) flip->set_probability(0.5f);
}

void FillResize(proto::Resize* resize) {
  Default(resize->mutable_field(), "image");
  Default(resize->mutable_method(), "bilinear");
}

void FillPad(proto::Pad* pad) {
  Default(pad->mutable_field(), "image");
  Default(pad->mutable_mode(), "constant");
}

void FillTranspose(proto::Transpose* transpose) {
  Default(transpose->mutable_field(), "image");
  if (!transpose->perm().empty()) return;
  for (const uint32_t axis : {2, 0, 1}) transpose->add_perm(axis);
}

void FillPadChannels(proto::PadChannels* pad) {
  Default(pad->mutable_field(), "image");
  if (pad->channels() == 0) pad->set_channels(4);
}

void FillRaw(proto::DecodeRaw* decode) {
  Default(decode->mutable_field(), "record");
  Default(decode->mutable_output(), decode->field().c_str());
  if (decode->dtype() == proto::DATA_TYPE_UNSPECIFIED) decode->set_dtype(proto::UINT8);
}

void FillMix(proto::Mix* mix) {
  if (!mix->weight().empty()) return;
  for (int i = 0; i < mix->input_size(); ++i) mix->add_weight(1);
}

void FillInterleave(proto::Interleave* interleave) {
  if (interleave->cycle_length() == 0) interleave->set_cycle_length(1);
  if (interleave->block_length() == 0) interleave->set_block_length(1);
}

template <typename Batch>
void FillPadding(Batch* batch) {
  for (proto::Padding& padding : *batch->mutable_padding()) {
    if (padding.value_case() == proto::Padding::VALUE_NOT_SET) padding.set_int_value(0);
  }
}

void FillOp(proto::Stage* stage);

template <typename Join>
void FillInputs(Join* join) {
  for (proto::Pipeline& input : *join->mutable_input()) {
    for (proto::Stage& stage : *input.mutable_stage()) FillOp(&stage);
  }
}

void FillOp(proto::Stage* stage) {
  FillCarried(stage);
  switch (stage->op_case()) {
    case proto::Stage::kTfrecord:
      return FillTfRecord(stage->mutable_tfrecord());
    case proto::Stage::kFixedLength:
      return Default(stage->mutable_fixed_length()->mutable_compression(), "auto");
    case proto::Stage::kText:
      return FillSource(stage->mutable_text());
    case proto::Stage::kCsv:
      return FillCsv(stage->mutable_csv());
    case proto::Stage::kTar:
      return FillSource(stage->mutable_tar());
    case proto::Stage::kIdx:
      return FillSource(stage->mutable_idx());
    case proto::Stage::kImageFolder:
      return FillImageFolder(stage->mutable_image_folder());
    case proto::Stage::kConcatenate:
      return FillInputs(stage->mutable_concatenate());
    case proto::Stage::kMix:
      FillMix(stage->mutable_mix());
      return FillInputs(stage->mutable_mix());
    case proto::Stage::kZip:
      return FillInputs(stage->mutable_zip());
    case proto::Stage::kInterleave:
      return FillInterleave(stage->mutable_interleave());
    case proto::Stage::kCustom:
      if (stage->custom().version() == 0) stage->mutable_custom()->set_version(1);
      return;
    case proto::Stage::kDecodeRaw:
      return FillRaw(stage->mutable_decode_raw());
    case proto::Stage::kPaddedBatch:
      return FillPadding(stage->mutable_padded_batch());
    case proto::Stage::kBucketByLength:
      return FillPadding(stage->mutable_bucket_by_length());
    case proto::Stage::kParseExample:
      return FillParse(stage->mutable_parse_example());
    case proto::Stage::kParseSequenceExample:
      return FillSequence(stage->mutable_parse_sequence_example());
    case proto::Stage::kParseCsv:
      return FillCsv(stage->mutable_parse_csv());
    case proto::Stage::kParseJson:
      return FillParse(stage->mutable_parse_json());
    case proto::Stage::kParseTar:
      return FillParse(stage->mutable_parse_tar());
    case proto::Stage::kDecodeImage:
      return FillDecode(stage->mutable_decode_image());
    case proto::Stage::kPeekImageShape:
      return FillPeek(stage->mutable_peek_image_shape());
    case proto::Stage::kRandomResizedCrop:
      return FillCrop(stage->mutable_random_resized_crop());
    case proto::Stage::kResize:
      return FillResize(stage->mutable_resize());
    case proto::Stage::kCenterCrop:
      return Default(stage->mutable_center_crop()->mutable_field(), "image");
    case proto::Stage::kRandomCrop:
      return Default(stage->mutable_random_crop()->mutable_field(), "image");
    case proto::Stage::kPad:
      return FillPad(stage->mutable_pad());
    case proto::Stage::kTranspose:
      return FillTranspose(stage->mutable_transpose());
    case proto::Stage::kBrightness:
      return FillChange(stage->mutable_brightness());
    case proto::Stage::kContrast:
      return FillChange(stage->mutable_contrast());
    case proto::Stage::kSaturation:
      return FillChange(stage->mutable_saturation());
    case proto::Stage::kHue:
      return FillChange(stage->mutable_hue());
    case proto::Stage::kSharpness:
      return FillChange(stage->mutable_sharpness());
    case proto::Stage::kGrayscale:
      return FillChange(stage->mutable_grayscale());
    case proto::Stage::kInvert:
      return FillChange(stage->mutable_invert());
    case proto::Stage::kEqualize:
      return FillChange(stage->mutable_equalize());
    case proto::Stage::kAutocontrast:
      return FillChange(stage->mutable_autocontrast());
    case proto::Stage::kPosterize:
      return FillChange(stage->mutable_posterize());
    case proto::Stage::kColorJitter:
      return FillChange(stage->mutable_color_jitter());
    case proto::Stage::kAffine:
      return FillAffine(stage->mutable_affine());
    case proto::Stage::kMixup:
    case proto::Stage::kCutmix:
    case proto::Stage::kMixupOrCutmix:
      return FillMixing(stage);
    case proto::Stage::kAugMix:
      return FillAugMix(stage->mutable_aug_mix());
    case proto::Stage::kAutoAugment:
      return FillAutoAugment(stage->mutable_auto_augment());
    case proto::Stage::kLabelSmoothing:
      return FillSmoothing(stage->mutable_label_smoothing());
    case proto::Stage::kVocabulary:
      return Default(stage->mutable_vocabulary()->mutable_split(), "none");
    case proto::Stage::kPadTokens:
      return FillPadTokens(stage->mutable_pad_tokens());
    case proto::Stage::kScale:
      return FillScale(stage->mutable_scale());
    case proto::Stage::kLog:
      return FillLog(stage->mutable_log());
    case proto::Stage::kHash:
      if (stage->hash().salt().empty()) stage->mutable_hash()->add_salt(0);
      return;
    case proto::Stage::kRandomErasing:
      return FillErasing(stage->mutable_random_erasing());
    case proto::Stage::kCutout:
      return FillChange(stage->mutable_cutout());
    case proto::Stage::kSolarize:
      return FillSolarize(stage->mutable_solarize());
    case proto::Stage::kGaussianBlur:
      return FillBlur(stage->mutable_gaussian_blur());
    case proto::Stage::kPadChannels:
      return FillPadChannels(stage->mutable_pad_channels());
    case proto::Stage::kFlip:
      return FillFlip(stage->mutable_flip());
    case proto::Stage::kNormalize:
      return Default(stage->mutable_normalize()->mutable_field(), "image");
    case proto::Stage::kCast:
      if (!stage->cast().has_scale()) stage->mutable_cast()->set_scale(1.0f);
      return;
    case proto::Stage::kOneHot:
      return Default(stage->mutable_one_hot()->mutable_field(), "label");
    default:
      return;  // nothing may be left out
  }
}

void FillDamage(proto::OnDamage* damage) {
  Default(damage->mutable_policy(), "fail");
  if (damage->policy() == "fail") return;
  const bool limited = damage->max_count() != 0 || damage->max_share() != 0;
  damage->set_max_share(limited ? damage->max_share() : 0.1);
}

google::protobuf::RepeatedPtrField<proto::Pipeline>* MutableInputs(proto::Stage* stage) {
  if (stage->has_concatenate()) return stage->mutable_concatenate()->mutable_input();
  if (stage->has_mix()) return stage->mutable_mix()->mutable_input();
  if (stage->has_zip()) return stage->mutable_zip()->mutable_input();
  return nullptr;
}

void CollectNames(const proto::Pipeline& pipeline, std::set<std::string>* taken) {
  for (const proto::Stage& stage : pipeline.stage()) {
    taken->insert(stage.name());
    const auto* inputs = InputsOf(stage);
    if (inputs == nullptr) continue;
    for (const proto::Pipeline& input : *inputs) CollectNames(input, taken);
  }
}

// The op's name, or the first of name_2, name_3, ... that no stage has; in the order of the text, a
// join before its inputs.
void FillNames(proto::Pipeline* pipeline, std::set<std::string>* taken) {
  for (proto::Stage& stage : *pipeline->mutable_stage()) {
    if (stage.name().empty() && stage.op_case() != proto::Stage::OP_NOT_SET) {
      const std::string& op = OpName(stage);
      std::string name = op;
      for (int n = 2; !taken->insert(name).second; ++n) name = absl::StrCat(op, "_", n);
      stage.set_name(name);
    }
    auto* inputs = MutableInputs(&stage);
    if (inputs == nullptr) continue;
    for (proto::Pipeline& input : *inputs) FillNames(&input, taken);
  }
}

}  // namespace

void FillDefaults(proto::Pipeline* pipeline) {
  if (pipeline->semantics_version() == 0) pipeline->set_semantics_version(kSemanticsVersion);
  if (pipeline->lanes() == 0) pipeline->set_lanes(1);
  if (pipeline->has_on_damage()) FillDamage(pipeline->mutable_on_damage());
  for (proto::Stage& stage : *pipeline->mutable_stage()) FillOp(&stage);
  std::set<std::string> taken;
  CollectNames(*pipeline, &taken);
  FillNames(pipeline, &taken);
}

}  // namespace millrace::pipeline
