#ifndef MILLRACE_PIPELINE_CUT_BARREN_WATCH_H_
#define MILLRACE_PIPELINE_CUT_BARREN_WATCH_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pipeline/cut/settler.h"
#include "pipeline/plan/physical.h"

// Notices that the endless input of a cut can give no batch any more: it comes round again and
// again, and nothing passes the filters. Only where that is certain, whatever the rows cost and
// whoever examines them first: an order without shuffles repeats itself, so a lane that had nothing
// in one round never gets a row; in any other order, no row comes once every record was looked at
// and none has ever passed. Elements of a zip whose inputs are shuffled are new in each epoch, so
// that nothing is ever certain of them.

namespace millrace::pipeline {

// Thread-compatible: under a lock of the executor.
class BarrenWatch {
 public:
  BarrenWatch() = default;  // notices nothing
  // `endless`: the plan's order has no end, and `epoch_size` is as Order::EpochSize says.
  BarrenWatch(const PhysicalPlan& plan, bool endless, uint64_t epoch_size, uint64_t num_records);

  // Records were looked at, in whatever order, and `kept` rows of them passed.
  void LookedAt(std::span<const SampleId> ids, uint64_t kept);
  // The next `positions` of a lane, of which `kept` rows passed. In the order of the lane.
  void CameBy(uint64_t lane, uint64_t positions, uint64_t kept);
  bool barren() const { return !reason_.empty(); }
  // Why no batch can be made. REQUIRES: barren().
  const std::string& reason() const { return reason_; }

 private:
  uint64_t num_lanes_ = 0;
  // Orders that repeat themselves.
  uint64_t round_ = 0;                 // positions of a lane until it is where it was; 0: another
  std::map<uint64_t, uint64_t> idle_;  // by lane: positions since a row passed
  // Other orders.
  uint64_t unseen_records_ = 0;  // 0: not watched
  std::vector<bool> seen_;
  std::string reason_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_BARREN_WATCH_H_
