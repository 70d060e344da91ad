#include "trainer/loop/plan_file.h"

#include <algorithm>

#include "base/status.h"
#include "pipeline/pipeline.pb.h"
#include "pipeline/text_proto.h"

namespace millrace::trainer {
namespace {

// Rows of the global batch that `stage` makes; 0: it makes none, or its buckets' sizes differ.
uint64_t BatchOf(const pipeline::proto::Stage& stage) {
  if (stage.has_batch()) return stage.batch().size();
  if (stage.has_padded_batch()) return stage.padded_batch().size();
  if (stage.has_ragged_batch()) return stage.ragged_batch().size();
  const auto& sizes = stage.bucket_by_length().batch_size();
  return !sizes.empty() && std::ranges::count(sizes, sizes[0]) == sizes.size() ? sizes[0] : 0;
}

}  // namespace

// A plan refuses variables that it does not name, which is right for one file alone.
absl::StatusOr<pipeline::Plan> LoadPlan(const std::string& path,
                                        const pipeline::Variables& variables,
                                        std::set<std::string>& used, PlanNumbers& numbers) {
  pipeline::proto::Pipeline message;
  std::set<std::string> named;
  const auto parsed = pipeline::LoadTextProto(path, variables, &message, &named);
  if (!parsed.ok()) return parsed.status();
  for (const auto& stage : message.stage()) {
    numbers.batch = std::max(numbers.batch, BatchOf(stage));
    if (stage.prefetch().batches() > 0) numbers.prefetch = stage.prefetch().batches();
  }
  numbers.seed = message.seed();
  pipeline::Variables own;
  for (const auto& [name, value] : variables) {
    if (named.contains(name)) own.emplace(name, value);
  }
  used.merge(named);
  return pipeline::Plan::FromFile(path, own);
}

}  // namespace millrace::trainer
