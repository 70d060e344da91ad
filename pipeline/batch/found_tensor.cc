#include "pipeline/found_tensor.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status.h"

namespace millrace::pipeline {

absl::Status CheckElement(bool is_element, std::string_view type, std::string_view name,
                          const ConstTensorView& view) {
  if (is_element) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor \"", ToAbsl(name), "\" is ",
                                                 ToAbsl(Name(view.dtype)), view.shape.ToString(),
                                                 ", which has no elements of type ", ToAbsl(type)));
}

absl::Status NoTensor(std::string_view name, std::span<const std::string> names) {
  const std::string nearest = NearestName(name, names);
  return absl::NotFoundError(absl::StrCat(
      "no tensor is called \"", ToAbsl(name), "\"; the batch has ", absl::StrJoin(names, ", "),
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?")));
}

void AbortOver(const absl::Status& status) {
  std::fprintf(stderr, "millrace: %s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace millrace::pipeline
