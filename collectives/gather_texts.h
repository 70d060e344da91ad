#ifndef MILLRACE_COLLECTIVES_GATHER_TEXTS_H_
#define MILLRACE_COLLECTIVES_GATHER_TEXTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// Returns the `own` of every rank, by rank; they may differ in length. Collective.
absl::StatusOr<std::vector<std::string>> GatherTexts(Communicator& communicator,
                                                     std::string_view own);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_GATHER_TEXTS_H_
