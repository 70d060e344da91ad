#ifndef MILLRACE_TRAINER_AGREE_H_
#define MILLRACE_TRAINER_AGREE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "collectives/communicator.h"

// Small collective talks around a training: every rank calls them in the same order.

namespace millrace::trainer {

// Returns OK when every rank passes OK, else on every rank the status of the lowest rank that did
// not, with "rank N: " before it where there are several. So a failure of one rank ends all of them
// with the same words, and nobody waits for ever.
absl::Status AgreeOnStatus(collectives::Communicator& communicator, const absl::Status& mine);

// True for an error that AgreeOnStatus or CheckSameSettings returned: every rank has it, so nobody
// needs to be told.
bool IsAgreed(const absl::Status& status);

// Every rank's `text` becomes rank 0's.
absl::Status BroadcastText(collectives::Communicator& communicator, std::string& text);

struct Setting {
  std::string_view name;
  uint64_t value = 0;
};

// Checks that every rank passes the same values.
//   INVALID_ARGUMENT  they differ; the lowest rank that differs from rank 0 is named, and its first
//                     setting that does
absl::Status CheckSameSettings(collectives::Communicator& communicator,
                               std::span<const Setting> settings);

// Sums over ranks, in place.
absl::Status SumOverRanks(collectives::Communicator& communicator, std::span<double> values);
absl::Status SumOverRanks(collectives::Communicator& communicator, std::span<int64_t> values);
// Largest over ranks, in place.
absl::Status MaxOverRanks(collectives::Communicator& communicator, std::span<double> values);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_AGREE_H_
