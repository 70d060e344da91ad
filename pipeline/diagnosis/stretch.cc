#include "pipeline/stretch.h"

#include <algorithm>

#include "base/host.h"
#include "base/metric_sum.h"
#include "base/metric_table.h"
#include "pipeline/device_feed.h"

namespace millrace::pipeline {

DiagnosisOptions DiagnosisOptionsOf(const Plan& plan, const Pipeline& pipeline) {
  const Cores cores = ReadCores();
  DiagnosisOptions options;
  options.processors = cores.affinity;
  options.cores = cores.quota > 0 ? std::min(cores.quota, options.processors) : cores.affinity;
  options.uint8_saved_bytes = BytesSavedByUint8(plan, pipeline.schema());
  return options;
}

Stretch::Stretch(const Pipeline& pipeline, Context& context, const DeviceFeed* feed)
    : pipeline_(&pipeline), context_(&context), feed_(feed) {
  Begin();
}

PipelineProfile Stretch::Profile() const {
  PipelineProfile profile = pipeline_->Profile();
  if (feed_ != nullptr) profile.copies = feed_->copies();
  return profile;
}

void Stretch::Begin() {
  fetched_bytes_ = SumOf(context_->metrics(), metric::kFetchedBytes);
  profile_ = Profile();
  host_ = ReadHostUse();
}

Diagnosis Stretch::Diagnose(DiagnosisOptions options) const {
  options.fetched_bytes = SumOf(context_->metrics(), metric::kFetchedBytes) - fetched_bytes_;
  return pipeline::Diagnose(Between(profile_, Profile()), UseBetween(host_, ReadHostUse()),
                            options);
}

}  // namespace millrace::pipeline
