#ifndef MILLRACE_TRAINER_SERVER_PLACEMENT_H_
#define MILLRACE_TRAINER_SERVER_PLACEMENT_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

// Shares the parameters of `model` out over `servers`, evenly by bytes: the largest first, each to
// the server that has least. Returns the parameters of each server, in ascending order; the same
// for the same model.
//   INVALID_ARGUMENT  there are more servers than parameters
absl::StatusOr<std::vector<std::vector<size_t>>> PlaceParameters(const Model& model, int servers);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_PLACEMENT_H_
