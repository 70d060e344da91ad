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

absl::Status ThrownError() {
  return absl::InternalError(absl::StrCat("exception: ", WhatIsThrown()));
}

}  // namespace

bool ApplyCaught(const Op& op, Run& run) {
  try {
    op.Apply(run);
    return true;
  } catch (...) {
    if (run.num_rows() > 1) return false;
    if (run.num_rows() == 1 && run.ok(0)) {
      run.Fail(0, ThrownError());
    }
    return true;
  }
}

absl::Status ApplyCaught(const BatchOp& op, BatchView& batch) {
  try {
    return op.Apply(batch);
  } catch (...) {
    return ThrownError();
  }
}

absl::Status Caught(const std::function<void()>& work) {
  try {
    work();
    return absl::OkStatus();
  } catch (...) {
    return ThrownError();
  }
}

}  // namespace millrace::pipeline
