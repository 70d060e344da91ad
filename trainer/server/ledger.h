#ifndef MILLRACE_TRAINER_SERVER_LEDGER_H_
#define MILLRACE_TRAINER_SERVER_LEDGER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/train.h"

// The first server's account of a training: which workers are there, which gradients count, and in
// which order. It knows no connections, no tensors and no clock.

namespace millrace::trainer {

struct LedgerOptions {
  int workers = 1;
  bool synchronous = false;
  int backup_workers = 0;      // with `synchronous`
  uint64_t max_staleness = 0;  // without
  uint64_t total = 0;          // updates of the whole training; without `synchronous` a limit
  uint64_t batches = 0;        // of each worker
};

// The number of the first process that is a worker.
inline constexpr uint64_t kFirstLife = 1;

// The place of a worker in its share of the data.
struct DataPosition {
  uint64_t batches = 0;
  std::string token;  // empty: the beginning
};

// One gradient of a worker.
struct Claim {
  int worker = 0;
  uint64_t life = 0;     // of the worker's process
  uint64_t number = 0;   // in this life
  uint64_t version = 0;  // of the weights that it is for
  int64_t rows = 0;
  double loss_sum = 0;
  DataPosition position;           // behind its batch
  std::vector<double> statistics;  // its rows, and the statistics of its batch times these
};

// The outcome of an event.
struct Ruling {
  std::vector<Claim> applied;  // the gradients of one update, by worker; empty: no update
  std::vector<Claim> dropped;  // came too late
};

// Thread-compatible.
class Ledger {
 public:
  // `version` updates are done; `positions` are by worker.
  Ledger(const LedgerOptions& options, uint64_t version, std::vector<DataPosition> positions);

  // Takes in a process as worker `worker`, and returns the number of its life, from kFirstLife on.
  //   ALREADY_EXISTS    the worker is there
  //   INVALID_ARGUMENT  there is no such worker
  absl::StatusOr<uint64_t> Join(int worker);
  // Counts a worker among those that an update waits for.
  void SetReady(int worker);
  // Forgets a worker and its gradient that waits. It may complete an update.
  Ruling Lose(int worker);

  // Takes a gradient.
  //   INVALID_ARGUMENT  it is of no worker that is ready, or of a version that is not there yet
  absl::StatusOr<Ruling> Take(Claim claim);
  // Gives up all gradients that wait, as the training is to stop. Their batches are not counted as
  // done.
  std::vector<int> Stop();

  uint64_t version() const { return version_; }
  // True once all workers were ready at the same time. Until then no gradient may be taken.
  bool has_started() const { return has_started_; }
  // True if no update is left that a worker that is there could make.
  bool is_over() const;
  bool is_here(int worker) const { return seats_[worker].is_here; }
  uint64_t life(int worker) const { return seats_[worker].life; }
  // True if an update waits for the worker.
  bool is_awaited(int worker) const;
  // True if a gradient of the worker waits for those of others.
  bool has_claim(int worker) const { return seats_[worker].claim.has_value(); }
  const DataPosition& position(int worker) const { return seats_[worker].position; }
  const ServerCounts& counts() const { return counts_; }

 private:
  struct Seat {
    bool is_here = false;
    bool is_ready = false;
    uint64_t life = 0;  // processes that have been this worker
    DataPosition position;
    std::optional<Claim> claim;  // waits for those of other workers
  };

  bool IsDone(const Seat& seat) const { return seat.position.batches >= options_.batches; }
  // Workers that can bring gradients.
  int NumActive() const;
  void Count(const Claim& claim);
  Ruling Decide();

  const LedgerOptions options_;
  uint64_t version_ = 0;
  bool has_started_ = false;
  std::vector<Seat> seats_;
  ServerCounts counts_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_LEDGER_H_
