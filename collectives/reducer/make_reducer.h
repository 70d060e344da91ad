#ifndef MILLRACE_COLLECTIVES_REDUCER_MAKE_REDUCER_H_
#define MILLRACE_COLLECTIVES_REDUCER_MAKE_REDUCER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/private_options.h"
#include "collectives/stale_reducer.h"

namespace millrace::collectives {

// As GradientReducer::Make, which calls them.
absl::StatusOr<std::unique_ptr<GradientReducer>> MakePlanned(Communicator& communicator,
                                                             std::vector<GradientSpec> gradients,
                                                             const PrivateReducerOptions& options);
absl::StatusOr<std::unique_ptr<GradientReducer>> MakePlanned(Communicator& communicator,
                                                             std::vector<GradientSpec> gradients,
                                                             std::vector<TensorView> memory,
                                                             const PrivateReducerOptions& options);

class StaleMaker {
 public:
  // As StaleReducer::Make, which calls it. Sets `step_stride`.
  static absl::StatusOr<std::unique_ptr<StaleReducer>> Make(Communicator& communicator,
                                                            std::vector<GradientSpec> gradients,
                                                            PrivateReducerOptions options,
                                                            const StaleOptions& stale);
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_MAKE_REDUCER_H_
