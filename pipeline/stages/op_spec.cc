#include "pipeline/stages/op_spec.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kMaxValueBytes = int64_t{1} << 40;

// True if some value has the shape, whatever its unknown extents are.
bool HasValues(DType dtype, const Shape& shape) {
  if (shape.IsKnown()) return ValueBytes(dtype, shape) >= 0;
  return std::ranges::all_of(shape.extents(),
                             [](int64_t extent) { return extent >= Shape::kUnknown; });
}

absl::Status CheckDistinct(const std::vector<std::string>& names, std::string_view what) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!name.empty() && seen.insert(name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the op ", ToAbsl(what), " \"", name, name.empty() ? "\", which is no name" : "\" twice"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ValueBytes(DType dtype, const Shape& shape) {
  auto bytes = static_cast<int64_t>(SizeOf(dtype));
  bool empty = false;
  for (const int64_t extent : shape.extents()) {
    if (extent < 0) return -1;
    empty = empty || extent == 0;
    if (extent > 0 && bytes > kMaxValueBytes / extent) return -1;
    if (extent > 0) bytes *= extent;
  }
  return empty ? 0 : bytes;
}

absl::Status CheckSpec(const SampleOpSpec& spec) {
  std::vector<std::string> written;
  for (const Field& field : spec.writes) written.push_back(field.name);
  MILLRACE_RETURN_IF_ERROR(CheckDistinct(spec.reads, "reads"));
  MILLRACE_RETURN_IF_ERROR(CheckDistinct(written, "writes"));
  written.insert(written.end(), spec.removes.begin(), spec.removes.end());
  MILLRACE_RETURN_IF_ERROR(CheckDistinct(written, "writes or removes"));
  for (const Field& field : spec.writes) {
    if (!HasValues(field.dtype, field.shape)) {
      return absl::InvalidArgumentError(absl::StrCat("no value of field \"", field.name,
                                                     "\" has the shape ", field.shape.ToString()));
    }
    if (field.dtype != DType::kBytes || field.shape == Shape{Shape::kUnknown}) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("bytes field \"", field.name, "\" must have the shape [?]"));
  }
  if (spec.preferred_rows >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError("SampleOpSpec.preferred_rows must be at least 1");
}

absl::StatusOr<Schema> ResolveSpec(const SampleOpSpec& spec, const Schema& input) {
  for (const std::string& name : spec.reads) MILLRACE_RETURN_IF_ERROR(input.CheckHas(name));
  for (const Field& expected : spec.expects) {
    MILLRACE_RETURN_IF_ERROR(input.CheckHas(expected.name));
    const Field& field = *input.Find(expected.name);
    if (field.dtype == expected.dtype && expected.shape.Admits(field.shape)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "field \"", field.name, "\" is ", ToAbsl(Name(field.dtype)), field.shape.ToString(),
        ", the op takes ", ToAbsl(Name(expected.dtype)), expected.shape.ToString()));
  }
  Schema output = input;
  for (const std::string& name : spec.removes) {
    MILLRACE_RETURN_IF_ERROR(output.CheckHas(name));
    output.Remove(name);
  }
  for (const Field& field : spec.writes) output.Set(field);
  return output;
}

}  // namespace millrace::pipeline
