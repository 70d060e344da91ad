#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_MUTATIONS_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_MUTATIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/order/log.h"

// Mistakes that a program could make, made in a log. Places are those of the log.

namespace millrace::trainer::cuda::order {

struct Mutation {
  std::string text;  // what was done
  Log log;
};

// Without the wait at `wait`.
Mutation DropWait(const Log& log, size_t wait);
// The event of the record at `record` is where it was before.
Mutation DropRecord(const Log& log, size_t record);
// Without an item of work.
Mutation DropWork(const Log& log, size_t work);
// The work at `work` and the next item of its stream the other way round; nullopt: there is none.
std::optional<Mutation> Swap(const Log& log, size_t work);
// The mark at `ready`, and all that the host does because of it, before the last item of the
// gradient's stream ahead of it; nullopt: there is none.
std::optional<Mutation> MarkEarly(const Log& log, size_t ready);
// The entry at `later` moved in front of that at `earlier`.
Mutation MoveBefore(const Log& log, size_t later, size_t earlier);
// What the work at `work` writes as its number `write`, and its readers read, lies where the bytes
// from `place` on are.
Mutation Place(const Log& log, size_t work, size_t write, uint64_t place);

// `count` random mutations of any of these kinds.
std::vector<Mutation> RandomMutations(const Log& log, size_t count, uint32_t seed);

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_MUTATIONS_H_
