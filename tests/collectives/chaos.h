#ifndef MILLRACE_TESTS_COLLECTIVES_CHAOS_H_
#define MILLRACE_TESTS_COLLECTIVES_CHAOS_H_

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "collectives/communicator.h"

// One rank of a group goes wrong in the middle of a job whose ranks are threads: what becomes of
// the others? Nothing is timed: the rank goes wrong once all others wait for it, and what must not
// wait for ever is left to the test's own limit.

namespace millrace::collectives {

enum class Fault {
  kSlow,      // comes late, within the limits
  kStopped,   // comes after the others' timeout
  kLost,      // is given up by the others' watch
  kLeaves,    // destroys its communicator
  kThrows,    // is unwound by an exception
  kAborts,    // aborts the job
  kDiverges,  // makes another call
};
inline constexpr Fault kFaults[] = {Fault::kSlow,    Fault::kStopped, Fault::kLost,
                                    Fault::kLeaves,  Fault::kThrows,  Fault::kAborts,
                                    Fault::kDiverges};
std::string Name(Fault fault);

// Which rank goes wrong, and when.
struct Turn {
  Fault fault = Fault::kSlow;
  int size = 2;
  int rank = 0;
  int step = 0;
  bool agreed = false;  // as Request::agreed

  std::string ToString() const;
};

// Turns with every fault at every one of `sizes`, rank and step drawn from `seed`.
std::vector<Turn> DrawTurns(const std::vector<int>& sizes, unsigned seed);

using RankWithOwn = std::function<void(std::unique_ptr<Communicator>)>;
// Runs the body on a thread for each rank; what the body throws is a fault, and is caught.
using RunOwnRanks = std::function<void(int size, const RankWithOwn& body)>;

void RunOwnThreadRanks(int size, const RankWithOwn& body);

// Whatever the fault throws.
struct Unwound : std::exception {};

// What the ranks of one turn saw.
class ChaosJob {
 public:
  struct Seen {
    absl::Status outcome;  // of the call in which it went wrong, if it did
    absl::Status later;    // of a call after that
  };

  // `notices`: ranks hear that a peer is gone without a watch that says so.
  ChaosJob(const Turn& turn, bool notices) : turn_(turn), notices_(notices), seen_(turn.size) {}

  // Also called, on the rank that goes wrong, before it does.
  std::function<void()> before_fault;

  std::vector<Seen> Run(const RunOwnRanks& run);

 private:
  static constexpr int kSteps = 4;

  void Rank(std::unique_ptr<Communicator> own);
  absl::Status Step(Communicator& comm, bool diverges) const;
  // What the others wait with in the step that goes wrong.
  WaitLimits LimitsOf(int rank);
  // False: the rank has left.
  bool GoWrong(std::unique_ptr<Communicator>& comm);
  void AwaitWaiting();
  void AwaitEnded();
  void SayLost();

  const Turn turn_;
  const bool notices_;

  Mutex mu_;
  CondVar changed_;
  std::vector<bool> waiting_ MILLRACE_GUARDED_BY(mu_);  // by rank: seen in its wait
  int ended_ MILLRACE_GUARDED_BY(mu_) = 0;              // ranks that the fault has ended
  bool lost_ MILLRACE_GUARDED_BY(mu_) = false;          // what a watchdog would find
  std::vector<Seen> seen_;                              // by rank: written by its thread
};

// Checks what all ranks of `turn` saw: also who went wrong, and why. `notices` as ChaosJob's:
// without, a rank in an agreed call may meet its peers' end of the communicator, which tells
// neither.
void ExpectOutcomes(const Turn& turn, const std::vector<ChaosJob::Seen>& seen, bool notices);

// Ranks leave a job and its parts in drawn orders while the last one still waits for them.
void LeaveInAnyOrder(const RunOwnRanks& run, int size, unsigned seed);

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_CHAOS_H_
