#include <exception>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/apply_caught_internal.h"

namespace millrace::pipeline {
namespace {

std::string WhatIsThrown() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "not a std::exception";
  }
}

}  // namespace

bool ApplyCaught(const Op& op, Run& run) {
  try {
    op.Apply(run);
    return true;
  } catch (...) {
    if (run.num_rows() > 1) return false;
    if (run.num_rows() == 1 && run.ok(0)) {
      run.Fail(0, absl::InternalError(absl::StrCat("exception: ", WhatIsThrown())));
    }
    return true;
  }
}

}  // namespace millrace::pipeline
