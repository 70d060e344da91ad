#ifndef MILLRACE_PIPELINE_STAGES_FIELDS_H_
#define MILLRACE_PIPELINE_STAGES_FIELDS_H_

#include <string>
#include <utility>
#include <vector>

#include "pipeline/stages/specs.h"

// Fields of ops, as several families have them.

namespace millrace::pipeline {

// Bytes in, something else out: of decode_image and decode_raw.
template <typename Options>
OpFields FieldsOfDecode(const Options& decode) {
  OpFields fields{{decode.field}, {decode.output}, {}, false};
  if (decode.output != decode.field) fields.removes.push_back(decode.field);
  return fields;
}

// Fields that become one, which may have a name of its own.
inline OpFields Consumed(const std::vector<std::string>& fields, const std::string& output) {
  OpFields consumed{fields, {output}, fields, false, {}};
  if (std::erase(consumed.removes, output) == 0) consumed.adds = {output};
  return consumed;
}

// An image, and the boxes and mask that go along with it.
OpFields FieldsOfTargets(const augment::TargetsOptions& targets);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_FIELDS_H_
