#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_SCHEDULES_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_SCHEDULES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "tests/trainer/backend/cuda/order/log.h"

// The check of the checks: a device that runs a log, in an order that the caller chooses. It knows
// nothing of clocks or races. Streams have queues, events pass, waits block; and values are hashes:
// an item of work reads bytes and writes a value that depends on its name and on all that it read.
// Where two runs differ in a value that was read, so would two runs of the real device.

namespace millrace::trainer::cuda::order {

// Of each item of work, by Entry::id: the hash of what it read.
using ValuesRead = std::map<size_t, uint64_t>;

struct LogRun {
  ValuesRead values;
  std::vector<size_t> order;  // places in the log, as they were done
};

// Runs `log`. `choose` is given the streams that can do something, in ascending order, and returns
// the number of one of them in that list; the host (0) gives work, and does its own.
LogRun RunLog(const Log& log, const std::function<size_t(const std::vector<int>& able)>& choose);

// Runs that differ the most: in each the streams have other priorities, in all their orders; and
// `num_random` ones, seeded.
std::vector<LogRun> ExtremeRuns(const Log& log, size_t num_random);

// Every run there is. For logs of a few entries.
std::vector<LogRun> AllRuns(const Log& log);

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_SCHEDULES_H_
