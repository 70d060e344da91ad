#ifndef MILLRACE_PIPELINE_STRETCH_H_
#define MILLRACE_PIPELINE_STRETCH_H_

#include <cstdint>

#include "base/context.h"
#include "base/host_use.h"
#include "pipeline/diagnosis.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"
#include "pipeline/profile.h"

namespace millrace::pipeline {

class DeviceFeed;  // device_feed.h

// Returns the options of a diagnosis of a pipeline of this process: its processors, and what the
// plan tells.
DiagnosisOptions DiagnosisOptionsOf(const Plan& plan, const Pipeline& pipeline);

// A stretch of time in which a pipeline is measured. It begins when it is made.
// Thread-compatible; the pipeline may be used meanwhile.
class Stretch {
 public:
  // All outlive it. `feed` is one over the pipeline, whose copies are measured too; null: there is
  // none.
  Stretch(const Pipeline& pipeline, Context& context, const DeviceFeed* feed = nullptr);

  // Begins it anew. REQUIRED behind Pipeline::Restore and Seek, which begin the measurements anew.
  void Begin();
  // Diagnoses the stretch up to now. Reads some files of /proc, and never waits. The use of the
  // host, the memory and the bytes fetched are those of the whole process.
  Diagnosis Diagnose(DiagnosisOptions options) const;

 private:
  PipelineProfile Profile() const;

  const Pipeline* pipeline_;
  Context* context_;
  const DeviceFeed* feed_;  // null: there is none
  PipelineProfile profile_;
  HostUse host_;
  int64_t fetched_bytes_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STRETCH_H_
