#include "pipeline/stages/apply_caught.h"

#include <exception>
#include <string>

#include "absl/strings/str_cat.h"

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

absl::Status ThrownError() {
  return absl::InternalError(absl::StrCat("exception: ", WhatIsThrown()));
}

void ApplyAlone(const Op& op, Run& run) {
  try {
    op.Apply(run);
  } catch (...) {
    if (run.num_rows() > 1) throw;
    if (run.num_rows() == 1 && run.ok(0)) run.Fail(0, ThrownError());
  }
}

bool ApplyCaught(const Op& op, Run& run) {
  return Caught([&] { ApplyAlone(op, run); }).ok();
}

absl::Status ApplyCaught(const BatchOp& op, BatchView& batch) {
  try {
    return op.Apply(batch);
  } catch (...) {
    return ThrownError();
  }
}

}  // namespace millrace::pipeline
