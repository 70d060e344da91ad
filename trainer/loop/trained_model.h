#ifndef MILLRACE_TRAINER_LOOP_TRAINED_MODEL_H_
#define MILLRACE_TRAINER_LOOP_TRAINED_MODEL_H_

#include <memory>
#include <optional>

#include "trainer/backend/backend.h"
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
  OptimizerSpec optimizer;
  TensorSet weights;
  TensorSet buffers;
  std::optional<Schedule> schedule;
  std::optional<WeightAverage> average;  // nullopt: none
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Backend> backend;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_TRAINED_MODEL_H_
