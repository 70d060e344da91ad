#ifndef MILLRACE_PIPELINE_PLAN_VIEW_H_
#define MILLRACE_PIPELINE_PLAN_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/run.h"
#include "pipeline/plan.h"

// The stages of a plan and the history of its fields, for pages that people look at.

namespace millrace::augment {
class Vocabulary;
}

namespace millrace::pipeline {

// A stage of a plan, with its defaults filled in.
struct StageView {
  std::string name;
  std::string op;
  std::string options;  // one line of protobuf text format; "" where there are none
};
std::vector<StageView> StagesOf(const Plan& plan);

// How the stages of a plan make and change a field of its batches.
struct FieldHistory {
  // How an image's extents lie: [height, width, channels] or [channels, height, width].
  enum class Layout { kUnknown, kChannelsLast, kChannelsFirst };
  // The change of a channel's uint8 value x into x * scale + offset.
  struct Affine {
    double scale = 1;
    double offset = 0;
  };

  Layout layout = Layout::kUnknown;
  // One change per channel, or one for all of them; nullopt: the values were not uint8, or were
  // changed in another way.
  std::optional<std::vector<Affine>> values;
  int64_t channels = 0;        // number of channels, without those of pad_channels; 0: not known
  std::vector<size_t> stages;  // stages that make or change the field, as indexes into StagesOf
};
// Returns the history of the field; an empty one if no stage names it.
FieldHistory HistoryOf(const Plan& plan, std::string_view field);

// Returns the vocabulary whose numbers the field holds in the batches; null if there is none. What
// pad_tokens adds counts as its numbers.
std::shared_ptr<const augment::Vocabulary> VocabularyOf(const Plan& plan, std::string_view field);

// Returns true if a stage that acts with a probability (flip, brightness, ...) has acted on a
// sample (random_erasing: has looked for a rectangle); nullopt for a stage without a probability
// per sample. The outcome is drawn again from the sample's random words (S-RANDOM-1).
// REQUIRES: stage < StagesOf(plan).size().
std::optional<bool> HasActed(const Plan& plan, size_t stage, const SampleId& id);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_VIEW_H_
