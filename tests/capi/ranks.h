#ifndef MILLRACE_TESTS_CAPI_RANKS_H_
#define MILLRACE_TESTS_CAPI_RANKS_H_

#include <millrace_collectives.h>
#include <stdint.h>

// The ranks of a test.

typedef void (*rank_body)(mr_comm* comm);

// Runs `body` on `size` ranks, each a thread of this process, which frees its group at the end.
void run_threads(int32_t size, rank_body body);

// Runs `body` on two ranks, each a forked process of this one, and expects of each that it ends as
// `wanted` says: 0 for a body that came to its end and whose expectations held, or the number that
// it has given to _exit. They meet in a folder, over TCP; `options` may be NULL.
void run_processes(const mr_comm_options* options, const int wanted[2], rank_body body);

// Of two ranks, beside their groups: lets the other go on, and waits until it says so. A rank that
// fails on purpose waits until the other is where it is to hear of it.
void tell_other(mr_comm* comm);
void await_other(mr_comm* comm);

// Makes a reducer of `count` float gradients of `elements` numbers each.
#define MOST_GRADIENTS 4
mr_reducer* make_reducer(mr_comm* comm, int count, int64_t elements,
                         const mr_reducer_options* options);
// Returns the numbers of gradient `index`.
float* gradient_of(mr_reducer* reducer, size_t index);
// Fills gradient `index` with a number, and marks it.
void give(mr_reducer* reducer, size_t index, float number);

#endif  // MILLRACE_TESTS_CAPI_RANKS_H_
