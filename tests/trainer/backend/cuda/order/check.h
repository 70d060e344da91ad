#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_CHECK_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_CHECK_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/order/log.h"

// The checks of a log. Together they say: whatever the streams' speeds are, every item of work
// reads what it was meant to read.
//
// CheckOrder looks at one log. Where it finds no race, every order that the rules (log.h) allow
// gives every read the bytes of the same write: the one that is last before it in the log. So the
// other checks only look at the log as it is written.
//
// A race is found where there is one, but where two entries race over some bytes, later ones over
// the same bytes may be left out: of each byte the last write is kept, and the last read behind it
// of each stream.

namespace millrace::trainer::cuda::order {

enum class Fault {
  kRace,         // two entries, of which one writes, use the same bytes, and neither happens before
                 // the other
  kNoMemory,     // bytes are used that are not allocated
  kNotWritten,   // bytes are read that nobody wrote, or that were to be forgotten
  kWrongTensor,  // bytes of one tensor are read for those of another: recycled too early, or an
                 // update before the sum
  kMarkedEarly,  // a gradient is marked ready before its last write
  kOtherWork,    // the work is not that of the reference
  kOtherSource,  // an item reads what another item wrote than in the reference
};

std::ostream& operator<<(std::ostream& stream, Fault fault);

// Entries by their places in the log; `second` is the later one, and `first` may be none (-1).
struct Finding {
  Fault fault = Fault::kRace;
  int first = -1;
  int second = -1;
  std::string text;  // names both, their streams, and the bytes
};

std::ostream& operator<<(std::ostream& stream, const Finding& finding);

// All faults but the last two.
std::vector<Finding> CheckOrder(const Log& log);

// Compares the work of two logs, item by item in the order of each stream: a graph's replay with
// the work that was captured. Finds kOtherWork, once.
std::vector<Finding> CompareWork(const Log& log, const Log& reference);

// Compares the sources of what is read, item by item, wherever the bytes lie: a step whose memory
// is recycled with one whose values all have memory of their own. Items are those of the same name,
// in the order of the log. Finds kOtherWork and kOtherSource.
std::vector<Finding> CompareSources(const Log& log, const Log& reference);

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_CHECK_H_
