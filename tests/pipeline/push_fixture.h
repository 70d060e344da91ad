#ifndef MILLRACE_TESTS_PIPELINE_PUSH_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_PUSH_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "pipeline/push_source.h"
#include "tests/pipeline/executor_fixture.h"

namespace millrace::pipeline {

// Opens a plan whose records the test pushes.
inline absl::StatusOr<std::unique_ptr<Pipeline>> OpenPushed(PhysicalPlan plan,
                                                            std::shared_ptr<PushSource> push,
                                                            std::shared_ptr<Context> context,
                                                            std::string token = "") {
  SourceSpec spec;
  spec.kind = SourceSpec::Kind::kPush;
  spec.stage = "push";
  plan.sources = {spec};
  OpenOptions options;
  options.push = std::move(push);
  options.resume_token = std::move(token);
  MILLRACE_ASSIGN_OR_RETURN(OpenedSources sources, OpenSources(plan, *context, options));
  return OpenPhysical(std::move(plan), std::move(sources), std::move(context), options);
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_PUSH_FIXTURE_H_
