#ifndef MILLRACE_PIPELINE_CUT_EMPTY_STREAM_H_
#define MILLRACE_PIPELINE_CUT_EMPTY_STREAM_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pipeline/cut/settler.h"
#include "pipeline/plan/physical.h"

// Notices that a stream is empty from here on: the endless input of a cut comes round again and
// again, and nothing passes the filters, so no batch can be made any more. It says so only if that
// is certain, independently of timing. An order without shuffles repeats itself, so a lane that had
// nothing in one round never gets a row. In any other order, no row comes once every record was
// looked at and none has ever passed. The elements of a zip whose inputs are shuffled are new in
// each epoch, so nothing is ever certain of them.

namespace millrace::pipeline {

// Thread-compatible; the executor's mutex guards it.
class EmptyStreamWatch {
 public:
  EmptyStreamWatch() = default;  // notices nothing
  // `endless`: the plan's order has no end, and `epoch_size` is as Order::EpochSize says.
  EmptyStreamWatch(const PhysicalPlan& plan, bool endless, uint64_t epoch_size,
                   uint64_t num_records);

  // Records were looked at, in any order, and `kept` rows of them passed.
  void LookedAt(std::span<const SampleId> ids, uint64_t kept);
  // The next `positions` of a lane, of which `kept` rows passed. In the order of the lane.
  void CameBy(uint64_t lane, uint64_t positions, uint64_t kept);
  // True once no batch can be made any more.
  bool found() const { return !reason_.empty(); }
  // The reason why. REQUIRES: found().
  const std::string& reason() const { return reason_; }

 private:
  uint64_t num_lanes_ = 0;
  // Orders that repeat themselves.
  uint64_t round_ = 0;                 // positions of a lane in one round; 0: another order
  std::map<uint64_t, uint64_t> idle_;  // positions since a row passed, by lane
  // Other orders.
  uint64_t unseen_records_ = 0;  // the records not looked at yet; 0: not watched
  std::vector<bool> seen_;
  std::string reason_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_EMPTY_STREAM_H_
