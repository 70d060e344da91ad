#include "pipeline/plan.h"
#include "tests/fuzz/fuzz_input.h"

// Pipeline files: a plan that is accepted is the same plan when its text is read again.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;            // NOLINT
  using namespace millrace::pipeline;  // NOLINT
  const fuzz::InputFile input(data, size);
  const auto plan = Plan::FromText(input.text(), "input.pbtxt", {{"DATA", "data"}});
  if (!plan.ok()) {
    fuzz::Require(plan.status().code() == absl::StatusCode::kInvalidArgument,
                  "a bad plan is an INVALID_ARGUMENT");
    return 0;
  }
  const auto again = Plan::FromText(plan->ToText(), "again.pbtxt");
  fuzz::Require(again.ok(), "the text of a plan is a plan");
  fuzz::Require(again->Fingerprint() == plan->Fingerprint(), "it is the same plan");
  return 0;
}
