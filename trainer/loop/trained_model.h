#ifndef MILLRACE_TRAINER_LOOP_TRAINED_MODEL_H_
#define MILLRACE_TRAINER_LOOP_TRAINED_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/job/job.h"
#include "trainer/job/job.pb.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/schedule.h"
#include "trainer/optimizer/weight_average.h"
#include "trainer/strategy/strategy.h"

namespace millrace::trainer {

// A model, its tensors, and the parts that train them. The strategy and the backend point into it,
// so it stays where it is. Members are destroyed in reverse order: the backend, which points into
// the strategy's memory, first.
struct TrainedModel {
  Model model;
  std::string role;  // "generator" or "discriminator"; empty: it is the only one
  OptimizerSpec optimizer;
  int passes = 1;  // backward passes for each batch, whose gradients are added up
  TensorSet weights;
  TensorSet buffers;
  std::optional<Schedule> schedule;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<TrainedAverage> average;  // null: none
  std::unique_ptr<Backend> backend;

  // Where the tensors live on a device: brings them to the host's, or from these. Elsewhere they do
  // nothing. Errors are the device's.
  absl::Status FetchWeights() { return strategy->FetchWeights(weights); }
  absl::Status StoreWeights() { return strategy->StoreWeights(weights); }
  absl::Status StoreBuffers() { return strategy->StoreBuffers(buffers); }
};

// The models of `job`, without tensors and without parts that train them.
//   INVALID_ARGUMENT  "FILE:LINE:COLUMN: ...": a group of an optimizer matches no parameter
absl::StatusOr<std::vector<TrainedModel>> MakeTrainedModels(const JobFile& job,
                                                            const std::vector<Model>& models);

// Gives each model its part of the tensors of all, which are in the order of the models.
void SetTensors(TensorSet weights, TensorSet buffers, std::vector<TrainedModel>& models);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_TRAINED_MODEL_H_
