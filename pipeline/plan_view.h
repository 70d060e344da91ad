#ifndef MILLRACE_PIPELINE_PLAN_VIEW_H_
#define MILLRACE_PIPELINE_PLAN_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/run.h"
#include "pipeline/plan.h"

// What a plan says of its stages and of the fields of its batches, for pages that people look at.

namespace millrace::pipeline {

// A stage of the plan, defaults filled in.
struct StageView {
  std::string name;
  std::string op;
  std::string options;  // one line of protobuf text format; "" where there are none
};
std::vector<StageView> StagesOf(const Plan& plan);

// What the stages tell of a field of the batches.
struct FieldHistory {
  // How an image's extents lie: [height, width, channels] or [channels, height, width].
  enum class Layout { kUnknown, kChannelsLast, kChannelsFirst };
  // A channel's uint8 value x has become x * scale + offset.
  struct Affine {
    double scale = 1;
    double offset = 0;
  };

  Layout layout = Layout::kUnknown;
  // One per channel, or one for all of them; nullopt: values were no uint8, or became something
  // else.
  std::optional<std::vector<Affine>> values;
  int64_t channels = 0;        // without those that pad_channels has added; 0: not known
  std::vector<size_t> stages;  // that have made the field or changed it; indexes into StagesOf
};
// An empty history when no stage names the field.
FieldHistory HistoryOf(const Plan& plan, std::string_view field);

// Whether a stage that acts with a probability (flip, brightness, ...) has acted on a sample, or,
// of random_erasing, has looked for a rectangle; nullopt for a stage that has no probability of its
// own for each sample. Drawn again from the sample's random words (S-RANDOM-1).
// REQUIRES: stage < StagesOf(plan).size().
std::optional<bool> HasActed(const Plan& plan, size_t stage, const SampleId& id);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_VIEW_H_
