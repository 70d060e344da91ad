#ifndef MILLRACE_PIPELINE_EXPLAIN_STAGE_LOOKUP_H_
#define MILLRACE_PIPELINE_EXPLAIN_STAGE_LOOKUP_H_

#include <string>
#include <vector>

#include "base/philox.h"
#include "base/run.h"
#include "pipeline/plan/message.h"

// Stages by the names of their options.

namespace millrace::pipeline {

// The options of a stage's op. REQUIRES: the op is set.
const google::protobuf::Message& OptionsOf(const proto::Stage& stage);
// The values of a string option, repeated or not; none when the op has no such option.
std::vector<std::string> StringsOf(const google::protobuf::Message& options,
                                   const std::string& name);
// The fields that the stage's options call "field", and the mask that goes along with an image.
std::vector<std::string> FieldsOf(const proto::Stage& stage);
// True if the field is one of those.
bool WorksOn(const proto::Stage& stage, const std::string& field);

// The random numbers that a stage draws for a sample, from the first word on.
RandomStream DrawsOf(const proto::Pipeline& pipeline, const proto::Stage& stage,
                     const SampleId& id);

// True if the stage draws for the elements of windows, of which each has its own.
bool DrawsForElements(const proto::Pipeline& pipeline, int stage);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXPLAIN_STAGE_LOOKUP_H_
