#include "trainer/loop/trained_model.h"

#include <iterator>
#include <utility>

#include "trainer/job/bad_field.h"
#include "trainer/optimizer/parameter_groups.h"

namespace millrace::trainer {
namespace {

// Moves the first `count` tensors from `next` on to `to`.
void Take(size_t count, TensorSet::iterator& next, TensorSet& to) {
  const auto end = next + static_cast<std::ptrdiff_t>(count);
  to.assign(std::move_iterator(next), std::move_iterator(end));
  next = end;
}

}  // namespace

absl::StatusOr<std::vector<TrainedModel>> MakeTrainedModels(const JobFile& job,
                                                            const std::vector<Model>& models) {
  std::vector<TrainedModel> all(models.size());
  for (size_t i = 0; i < models.size(); ++i) {
    const ModelFile& file = job.models[i];
    all[i].model = models[i];
    all[i].role = file.role;
    all[i].optimizer = file.optimizer;
    // Of generated samples and of real ones.
    if (file.role == "discriminator") all[i].passes = 2;
    auto bad = CheckGroups(file.optimizer, models[i]);
    if (!bad) continue;
    if (!file.role.empty()) bad->path.insert(bad->path.begin(), {{"adversarial"}, {file.role}});
    return ErrorAt(job.places, *bad);
  }
  return all;
}

void SetTensors(TensorSet weights, TensorSet buffers, std::vector<TrainedModel>& models) {
  auto weight = weights.begin();
  auto buffer = buffers.begin();
  for (TrainedModel& trained : models) {
    Take(trained.model.parameters.size(), weight, trained.weights);
    Take(trained.model.buffers.size(), buffer, trained.buffers);
  }
}

}  // namespace millrace::trainer
