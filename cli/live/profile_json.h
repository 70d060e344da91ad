#ifndef MILLRACE_CLI_LIVE_PROFILE_JSON_H_
#define MILLRACE_CLI_LIVE_PROFILE_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "pipeline/profile.h"

namespace millrace::cli {

// The measurements of a pipeline as JSON: its members have the names and the units of
// PipelineProfile's. Times by cause and by kind of item are objects, and a histogram is {"count",
// "p50", "p99", "max", "bins"}, where each bin is the largest number in it and their count.
nlohmann::ordered_json ProfileJson(const pipeline::PipelineProfile& profile);

// The measurements that ProfileJson wrote. Members that are not there are 0, for JSON may be of
// another version.
pipeline::PipelineProfile ProfileOfJson(const nlohmann::ordered_json& json);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_PROFILE_JSON_H_
