#ifndef MILLRACE_CLI_DIAGNOSE_STRETCH_H_
#define MILLRACE_CLI_DIAGNOSE_STRETCH_H_

#include <cstdint>

#include "base/context.h"
#include "base/host_use.h"
#include "pipeline/diagnosis.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"
#include "pipeline/profile.h"

namespace millrace::cli {

// The processors and the plan of a pipeline of this process, for a diagnosis.
pipeline::DiagnosisOptions DiagnosisOptionsOf(const pipeline::Plan& plan,
                                              const pipeline::Pipeline& pipeline);

// A stretch of time in which a pipeline is measured. It begins when it is made.
// Thread-compatible.
class Stretch {
 public:
  // `pipeline` and its context outlive it.
  Stretch(const pipeline::Pipeline& pipeline, Context& context);

  // Begins it anew.
  void Begin();
  // Diagnoses the stretch up to now.
  pipeline::Diagnosis Diagnose(pipeline::DiagnosisOptions options) const;

 private:
  const pipeline::Pipeline* pipeline_;
  Context* context_;
  pipeline::PipelineProfile profile_;
  HostUse host_;
  int64_t fetched_bytes_ = 0;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_DIAGNOSE_STRETCH_H_
