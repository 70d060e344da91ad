#ifndef MILLRACE_PIPELINE_CUT_BATCH_COUNTER_H_
#define MILLRACE_PIPELINE_CUT_BATCH_COUNTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/cut/state.h"
#include "pipeline/plan/physical.h"

namespace millrace::pipeline {

// repeat, take and skip of whole batches behind a cut, where the number of batches of a pass is
// known only at its end. The steps are iterators that pull from one another, turned inside out: the
// settler reports the result of each pull of the innermost one, and the counter returns the
// reaction of the outermost one. Thread-compatible.
class BatchCounter {
 public:
  enum class After {
    kGoOn,     // ask for the next batch of this pass
    kNewPass,  // begin the batch stage's input again
    kEnd,      // nothing is wanted any more
  };
  // Borrows the steps.
  //   INVALID_ARGUMENT  a step of another kind
  static absl::StatusOr<BatchCounter> Make(std::span<const OrderStep> steps);

  // The step at the very beginning: kGoOn or kEnd.
  After Begin() { return AfterTakes(); }
  // False if the next batch of the pass is skipped.
  bool NextIsDelivered() const;
  // The pass gave a batch.
  After OnBatch();
  // The pass has no more batches.
  After OnPassEnd() { return AfterEnd(0); }
  // True while the steps may ask for another pass after this one.
  bool MayPassAgain() const;

  void Write(StateWriter& writer) const;
  void Read(StateReader& reader);

 private:
  struct Step {
    OrderStep::Kind kind;
    uint64_t limit;
    uint64_t count = 0;  // batches taken or skipped; whole passes of a repeat
    bool gave = false;   // a repeat: true if its present pass gave a batch
  };
  After AfterTakes();
  After AfterEnd(size_t step);

  std::vector<Step> steps_;  // the steps from the batch stage outwards
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUT_BATCH_COUNTER_H_
