#ifndef MILLRACE_TESTS_CAPI_STREAMS_H_
#define MILLRACE_TESTS_CAPI_STREAMS_H_

#include <millrace.h>
#include <stdint.h>

// Plans over numbers, which need no files.

// 20 numbers in 3 batches of 8 rows, the last with 4 rows of padding.
#define NUMBERS "stage { range { count: 20 } } stage { batch { size: 8 } }"
// No number passes, and to look at all takes days: there is never a batch.
#define NOTHING                                    \
  "stage { range { count: 1000000000000 } } "      \
  "stage { filter { predicate: \"value < 0\" } } " \
  "stage { batch { size: 8 } }"
// Batches of 64 KiB and 8 KiB of ids and more, without an end.
#define LARGE                                               \
  "stage { range { count: 1000000 } } stage { repeat {} } " \
  "stage { batch { size: 8192 } }"

// Makes a temporary file of `size` bytes, and writes its path; the caller takes it away.
typedef struct path {
  char name[64];
} path;
path make_file(const char* bytes, size_t size);

// Plans of FILE.
mr_plan* make_plan_of(const char* text, const path* file);
mr_plan* make_plan(const char* text);
// Opens such a plan, and keeps indexes in /tmp.
mr_loader* open_file(const char* text, const path* file);
mr_loader* open_stream(const char* text, mr_context* context, const mr_open_options* options);
// The same with ops, for a rank, on that many threads.
mr_loader* open_with_ops(const char* text, const mr_ops* ops, int rank, int world, int threads);
// Returns the next batch; NULL at the end.
mr_batch* next_batch(mr_loader* loader);
// Returns the first number of a batch of numbers.
int64_t first_number(const mr_batch* batch);

#endif  // MILLRACE_TESTS_CAPI_STREAMS_H_
