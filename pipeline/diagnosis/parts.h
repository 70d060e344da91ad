#ifndef MILLRACE_PIPELINE_DIAGNOSIS_PARTS_H_
#define MILLRACE_PIPELINE_DIAGNOSIS_PARTS_H_

#include <string_view>
#include <vector>

#include "pipeline/diagnosis.h"
#include "pipeline/profile.h"

namespace millrace::pipeline {

inline constexpr std::string_view kNotAttributed = "not attributed";

// Splits the workers' time into ops, items of the executor, and the rest, which is last.
std::vector<WorkPart> PartsOf(const PipelineProfile& profile);

// The part with the largest share but for the rest, or null.
const WorkPart* LargestPart(const std::vector<WorkPart>& parts);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DIAGNOSIS_PARTS_H_
