#ifndef MILLRACE_TESTS_FUZZ_FUZZ_MAPS_H_
#define MILLRACE_TESTS_FUZZ_FUZZ_MAPS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/run.h"
#include "base/schema.h"
#include "pipeline/plan.h"
#include "pipeline/stages/specs.h"

// What targets share whose input is the text of a plan's maps. An op whose output would be large is
// left out there: how large is the plan's business.

namespace millrace::fuzz {

// Of all fields of a sample, and of the plan's text.
inline constexpr int64_t kMaxElements = int64_t{1} << 18;

// The plan of those maps.
inline absl::StatusOr<pipeline::Plan> PlanOfMaps(std::string_view maps) {
  return pipeline::Plan::FromText(absl::StrCat("stage { tfrecord { files: \"x\" } }\n",
                                               std::string(maps), "\nstage { batch { size: 1 } }"),
                                  "maps.pbtxt");
}

// The fields as they are in the run, with all extents of the first row.
inline Schema SchemaOf(const Run& run) {
  Schema schema;
  for (const Column& column : run.columns()) {
    const bool is_bytes = column.dtype() == DType::kBytes;
    schema.Set(
        {column.name(), column.dtype(), is_bytes ? Shape{Shape::kUnknown} : column.at(0).shape});
  }
  return schema;
}

inline bool IsSmall(const Schema& schema, const pipeline::OpOptions& options) {
  int64_t elements = 0;
  for (const Field& field : schema.fields()) {
    int64_t of_field = 1;
    for (const int64_t extent : field.shape.extents()) {
      if (extent > kMaxElements) return false;
      of_field = std::min(of_field * std::max<int64_t>(extent, 1), kMaxElements);
    }
    elements += of_field;
  }
  // What the shape does not tell.
  const auto* resize = std::get_if<augment::ResizeOptions>(&options);
  return elements < kMaxElements && (resize == nullptr || resize->shorter <= 64);
}

}  // namespace millrace::fuzz

#endif  // MILLRACE_TESTS_FUZZ_FUZZ_MAPS_H_
