#include "cli/live/profile_json.h"

#include "cli/live/json_fields.h"
#include "cli/live/profile_members.h"

namespace millrace::cli {

nlohmann::ordered_json ProfileJson(const pipeline::PipelineProfile& profile) {
  nlohmann::ordered_json json;
  JsonWriter writer(json);
  Members(writer, profile);
  return json;
}

pipeline::PipelineProfile ProfileOfJson(const nlohmann::ordered_json& json) {
  pipeline::PipelineProfile profile;
  JsonReader reader(json);
  Members(reader, profile);
  return profile;
}

}  // namespace millrace::cli
