#ifndef MILLRACE_TESTS_COLLECTIVES_LOST_WHILE_H_
#define MILLRACE_TESTS_COLLECTIVES_LOST_WHILE_H_

// A rank whose watchdog says, in one phase of a step, that its peer is lost, while nothing else
// tells it so.

#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "collectives/peer_lost.h"
#include "collectives/progress.h"
#include "collectives/reducer/make_reducer.h"
#include "tests/collectives/await_until.h"
#include "tests/collectives/reducer/awaited_bucket.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {

// Rank 1 is lost while this rank is in `phase`.
class LostWhile final : public Progress {
 public:
  explicit LostWhile(Phase phase) : phase_(phase) {}

  void Enter(int64_t, int, Phase phase) override { lost_ = phase == phase_; }
  absl::Status Health() const override {
    return lost_ ? PeerLostError({.rank = 1}, "it was killed") : absl::OkStatus();
  }

 private:
  const Phase phase_;
  std::atomic<bool> lost_ = false;
};

// Rank 0 of two takes a step, to which rank 1 does not come: it is to hear from LostWhile(`phase`)
// that rank 1 is lost. Rank 1 stands still until then, or until rank 0 has failed otherwise;
// `told` is of both.
inline absl::Status ExpectLostWhile(Phase phase, Communicator& comm,
                                    const std::vector<GradientSpec>& gradients,
                                    PrivateReducerOptions options, std::atomic<bool>& told) {
  LostWhile progress(phase);
  options.progress = &progress;
  comm.set_timeout(std::chrono::seconds(20));
  const auto reducer = MakePlanned(comm, gradients, options);
  if (comm.rank() == 1) {
    MILLRACE_RETURN_IF_ERROR(reducer.status());
    return AwaitUntil([&told] { return told.load(); });
  }
  absl::Status outcome = reducer.status();
  if (outcome.ok()) outcome = MarkAll(**reducer, gradients.size());
  if (outcome.ok()) outcome = (*reducer)->Finish();
  told = true;
  const std::optional<PeerLost> lost = PeerLostOf(outcome);
  return lost.has_value() && lost->rank == 1 ? absl::OkStatus() : Fail(outcome.ToString());
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_LOST_WHILE_H_
