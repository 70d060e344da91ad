#ifndef MILLRACE_TRAINER_RANKS_AGREE_H_
#define MILLRACE_TRAINER_RANKS_AGREE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collectives/agreed.h"
#include "collectives/communicator.h"

// Small collective exchanges around a training. Every rank calls them in the same order.

namespace millrace::trainer {

// Errors of these exchanges that every rank returns together carry a mark.
using collectives::IsAgreed;
using collectives::MarkAgreed;

// Calls `body` and returns its status, or RESOURCE_EXHAUSTED or INTERNAL if it throws. A rank must
// not unwind past its peers: they would wait for ever in the next collective call.
absl::Status WithoutExceptions(const std::function<absl::Status()>& body);

// Returns OK if every rank passes OK. Otherwise every rank gets the status of the lowest rank that
// failed, payloads included, with "rank N: " before it if there are several ranks. So a failure of
// one rank ends all of them with the same words, and no rank waits for ever.
absl::Status AgreeOnStatus(collectives::Communicator& communicator, const absl::Status& mine);

// Replaces every rank's `text` by that of rank 0.
absl::Status BroadcastText(collectives::Communicator& communicator, std::string& text);

// Replaces the elements of every rank's `tensors`, which have the same sizes, by those of rank 0.
absl::Status BroadcastTensors(collectives::Communicator& communicator,
                              std::vector<std::vector<float>>& tensors);

struct Setting {
  std::string_view name;
  uint64_t value = 0;
};

// Checks that every rank passes the same values.
//   INVALID_ARGUMENT  they differ; the lowest rank that differs from rank 0 is named, and its first
//                     setting that does
absl::Status CheckSameSettings(collectives::Communicator& communicator,
                               std::span<const Setting> settings);

// Says in words how two texts differ.
using Comparison = std::function<std::string(const std::string& rank0, const std::string& other)>;

// Checks that every rank passes the same `text`.
//   INVALID_ARGUMENT  they differ; the lowest rank that differs from rank 0 is named, and how
absl::Status CheckSameText(collectives::Communicator& communicator, std::string_view name,
                           const std::string& text, const Comparison& compare);

// The first line in which the two texts differ, as a Comparison.
std::string FirstDifferentLine(const std::string& rank0, const std::string& other);

// Sums over ranks, in place.
absl::Status SumOverRanks(collectives::Communicator& communicator, std::span<double> values);
absl::Status SumOverRanks(collectives::Communicator& communicator, std::span<int64_t> values);
// Largest over ranks, in place.
absl::Status MaxOverRanks(collectives::Communicator& communicator, std::span<double> values);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RANKS_AGREE_H_
