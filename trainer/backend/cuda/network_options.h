#ifndef MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_OPTIONS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_OPTIONS_H_

#include <functional>
#include <vector>

#include "trainer/backend/cuda/operations.h"
#include "trainer/backend/cuda/tuning/tuned_plans.h"

namespace millrace::trainer::cuda {

// How a network gives its work to a device.
struct NetworkOptions {
  // Performance only. True if work is captured after it ran once, so that later steps launch it.
  bool captures = false;
  // The parameters behind whose gradients the graphs of the backward pass end: gradients before
  // them are reported with them. Those of a reducer's buckets make a graph for each bucket. Empty:
  // every gradient ends one.
  std::vector<int> graph_ends = {};
  // Chooses the plans of products, and outlives the network; null: the device chooses.
  TunedPlans* tuned = nullptr;

  // For tests.
  bool recycles = true;  // false: every value has memory of its own
  // Called before the device is given an operation, but not for one in a graph that is launched.
  std::function<void(const Operation& operation)> on_operation = {};
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_OPTIONS_H_
