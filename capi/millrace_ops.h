#ifndef MILLRACE_CAPI_MILLRACE_OPS_H_
#define MILLRACE_CAPI_MILLRACE_OPS_H_

#include <stddef.h>
#include <stdint.h>

#include "millrace.h"

// Ops of the program that work on one sample at a time, by the rules of millrace.h. One on runs of
// samples (mr_ops_register_run) takes less time for each.

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_sample mr_sample;

// A sample, while an op works on it. It lives for one call.
typedef struct mr_sample_view {
  size_t struct_size;
  const mr_sample_id* id;
  uint64_t position;       // the sample's position in the stream
  const mr_tensor* reads;  // each lies the first one's struct_size behind the one before it
  size_t num_reads;        // the number of fields that the op reads
  // Memory for the value of each field that the op writes, zeroed; NULL for a field whose shape has
  // a -1 (mr_sample_allocate).
  void* const* writes;
  size_t num_writes;    // the number of fields that the op writes
  const char* options;  // the text in the plan
  mr_sample* sample;    // for the calls below
} mr_sample_view;

// An op on samples. Workers call it, several at once and on different samples; it must not call the
// loader but for mr_loader_cancel. The result must depend on the sample alone.
typedef struct mr_sample_op {
  size_t struct_size;
  // Returns NULL, or an error of mr_error_create, which is that of the sample. One of code
  // MR_DATA_LOSS is damage, as the plan's on_damage treats it; others end the stream.
  mr_error* (*apply)(void* user, const mr_sample_view* sample);
  void* user;
  // Called once, when `apply` will not be called any more, also if mr_ops_register_sample fails
  // behind the check of the struct. May be NULL.
  void (*destroy)(void* user);
  const char* const* reads;  // the names of the fields that the op reads
  size_t num_reads;
  const mr_field* const* writes;  // the fields that it writes, new ones or instead of old ones
  size_t num_writes;
  const char* const* removes;  // the names of the fields that samples lose
  size_t num_removes;
} mr_sample_op;
// Adds an op, as mr_ops_register_run does.
MR_API mr_error* mr_ops_register_sample(mr_ops* ops, const char* name, uint32_t version,
                                        const mr_sample_op* op);
// Writes where the op puts the value of field number `field` that it writes, if the declared shape
// of the field has a -1. The memory is zeroed.
//   MR_INVALID_ARGUMENT  the field's declared shape does not admit this one
//   MR_OUT_OF_RANGE      there is no such field
MR_API mr_error* mr_sample_allocate(mr_sample* sample, size_t field, const int64_t* shape,
                                    int32_t rank, void** data);
// Writes the first `count` random words of the sample. They are the same in a world of any size,
// for any number of threads, and after resuming.
MR_API void mr_sample_random(const mr_sample* sample, uint32_t* words, size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_CAPI_MILLRACE_OPS_H_
