#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "pipeline/explain/explain.h"
#include "pipeline/explain/stage_lookup.h"
#include "pipeline/plan_view.h"
#include "pipeline/stages/table.h"

// A field's history is what its stages do to it, one after the other. Stages are known by the names
// of their ops, and their fields by what the options call "field" and "output": a stage that this
// file has never heard of makes the values of its fields unknown, and no more is claimed than is
// so.

namespace millrace::pipeline {

namespace {

using Layout = FieldHistory::Layout;

struct Followed {
  FieldHistory history;
  // The extents that decode_raw has given, as they lie now; empty: not known.
  std::vector<int64_t> extents;
};
using Histories = std::map<std::string, Followed, std::less<>>;

void Multiply(double by, FieldHistory& history) {
  if (!history.values) return;
  for (auto& value : *history.values) value = {value.scale * by, value.offset * by};
}

void Normalize(const proto::Normalize& options, FieldHistory& history) {
  history.layout = Layout::kChannelsLast;
  if (history.channels == 0) history.channels = options.mean_size();
  if (!history.values) return;
  const auto channels = static_cast<size_t>(options.mean_size());
  auto& values = *history.values;
  if (values.size() == 1) values.resize(channels, values[0]);
  if (values.size() != channels) {
    history.values.reset();
    return;
  }
  for (size_t c = 0; c < channels; ++c) {
    const double scale = 1 / double{options.stddev(static_cast<int>(c))};
    const double mean = options.mean(static_cast<int>(c));
    values[c] = {values[c].scale * scale, (values[c].offset - mean) * scale};
  }
}

void Transpose(const proto::Transpose& options, Followed& field) {
  FieldHistory& history = field.history;
  const std::vector<uint32_t> perm(options.perm().begin(), options.perm().end());
  std::vector<int64_t> extents;
  for (const uint32_t axis : perm) {
    if (axis < field.extents.size()) extents.push_back(field.extents[axis]);
  }
  field.extents = std::move(extents);
  const bool knows_last = history.layout != Layout::kChannelsFirst;
  if (perm == std::vector<uint32_t>{2, 0, 1} && knows_last) {
    history.layout = Layout::kChannelsFirst;
  } else if (perm == std::vector<uint32_t>{1, 2, 0} && history.layout != Layout::kChannelsLast) {
    history.layout = Layout::kChannelsLast;
  } else if (perm != std::vector<uint32_t>{1, 0, 2} || !knows_last) {
    history.layout = Layout::kUnknown;
  }
}

// Every fourth channel that comes later is one of those.
void PadChannels(Followed& field) {
  field.history.layout = Layout::kChannelsLast;
  const bool known = field.extents.size() == 3 && field.extents[2] > 0;
  if (field.history.channels == 0 && known) field.history.channels = field.extents[2];
}

// A decoder's output, which are uint8 numbers of `layout`.
FieldHistory Decoded(const std::vector<size_t>& stages, Layout layout) {
  return {.layout = layout, .values = {{FieldHistory::Affine{}}}, .stages = stages};
}

void DecodeRaw(const proto::DecodeRaw& options, Followed& field) {
  field.history = Decoded(field.history.stages, Layout::kUnknown);
  if (options.dtype() != proto::UINT8) field.history.values.reset();
  field.extents.assign(options.shape().begin(), options.shape().end());
}

// Takes one field that `stage` names through the stage.
void Follow(const proto::Stage& stage, Followed& field) {
  FieldHistory& history = field.history;
  if (stage.has_decode_image()) {
    history = Decoded(history.stages, Layout::kChannelsLast);
    history.channels = stage.decode_image().channels();
  } else if (stage.has_decode_raw()) {
    DecodeRaw(stage.decode_raw(), field);
  } else if (stage.has_normalize()) {
    Normalize(stage.normalize(), history);
  } else if (stage.has_cast()) {
    Multiply(stage.cast().scale(), history);
  } else if (stage.has_transpose()) {
    Transpose(stage.transpose(), field);
  } else if (stage.has_pad_channels()) {
    PadChannels(field);
  } else if (RowOf(stage).keeps_values) {
    history.layout = Layout::kChannelsLast;
  } else if (!MixesRows(stage)) {
    history.values.reset();
    field.extents.clear();
  }
}

void FollowCustom(size_t index, Histories& histories) {
  for (auto& [name, field] : histories) {
    field.history.values.reset();
    field.history.layout = Layout::kUnknown;
    field.history.stages.push_back(index);
    field.extents.clear();
  }
}

void FollowStage(const proto::Stage& stage, size_t index, Histories& histories) {
  // Behind a window a value has one more extent, which nothing here knows.
  if (stage.has_custom() || stage.has_window()) return FollowCustom(index, histories);
  const std::vector<std::string> outputs = StringsOf(OptionsOf(stage), "output");
  const bool renames = !outputs.empty() && !outputs[0].empty();
  for (const std::string& name : FieldsOf(stage)) {
    Followed& field = histories[renames ? outputs[0] : name];
    if (renames && outputs[0] != name) field = histories[name];
    field.history.stages.push_back(index);
    Follow(stage, field);
  }
}

}  // namespace

std::vector<StageView> StagesOf(const Plan& plan) {
  std::vector<StageView> stages;
  for (const proto::Stage& stage : plan.message().pipeline.stage()) {
    stages.push_back({stage.name(), OpName(stage), StageOptionsText(stage)});
  }
  return stages;
}

FieldHistory HistoryOf(const Plan& plan, std::string_view field) {
  Histories histories;
  const proto::Pipeline& pipeline = plan.message().pipeline;
  for (int i = 0; i < pipeline.stage_size(); ++i) {
    FollowStage(pipeline.stage(i), static_cast<size_t>(i), histories);
  }
  const auto it = histories.find(field);
  return it == histories.end() ? FieldHistory{} : it->second.history;
}

std::shared_ptr<const augment::Vocabulary> VocabularyOf(const Plan& plan, std::string_view field) {
  std::shared_ptr<const augment::Vocabulary> vocabulary;
  for (const size_t i : HistoryOf(plan, field).stages) {
    const proto::Stage& stage = plan.message().pipeline.stage(static_cast<int>(i));
    if (stage.has_vocabulary()) {
      vocabulary = plan.message().vocabularies.at(stage.vocabulary().file());
    } else if (!stage.has_pad_tokens() && !stage.has_cast()) {
      vocabulary = nullptr;
    }
  }
  return vocabulary;
}

std::optional<bool> HasActed(const Plan& plan, size_t stage, const SampleId& id) {
  const proto::Pipeline& pipeline = plan.message().pipeline;
  const proto::Stage& message = pipeline.stage(static_cast<int>(stage));
  const google::protobuf::Message& options = OptionsOf(message);
  const auto* probability = options.GetDescriptor()->FindFieldByName("probability");
  if (probability == nullptr || !RowOf(message).keeps_values) return std::nullopt;
  if (DrawsForElements(pipeline, static_cast<int>(stage))) return std::nullopt;
  RandomStream random = DrawsOf(pipeline, message, id);
  // All of these ops draw this first (augment/image_ops.h, color_ops.h, distort_ops.h).
  return random.NextFloat() < options.GetReflection()->GetFloat(options, probability);
}

}  // namespace millrace::pipeline
