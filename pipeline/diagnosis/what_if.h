#ifndef MILLRACE_PIPELINE_DIAGNOSIS_WHAT_IF_H_
#define MILLRACE_PIPELINE_DIAGNOSIS_WHAT_IF_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "pipeline/diagnosis.h"
#include "pipeline/diagnosis/model.h"
#include "pipeline/profile.h"

namespace millrace::pipeline {

// A change counts from this gain on; less is lost in noise.
inline constexpr double kNotableGain = 0.03;

// Predicts the effects of changes. `diagnosis` has its facts and parts.
std::vector<WhatIf> WhatIfsOf(const Model& model, const PipelineProfile& profile,
                              const HostUse& host, const DiagnosisOptions& options,
                              const Diagnosis& diagnosis);

// Returns the change of the pipeline with the most effect, as an index: of those that a setting or
// the user can make, else of those that need other hardware. nullopt: none has a notable effect.
std::optional<size_t> BestChange(const std::vector<WhatIf>& what_ifs);

// True if the change needs other hardware.
bool NeedsHardware(WhatIf::Kind kind);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DIAGNOSIS_WHAT_IF_H_
