#ifndef MILLRACE_CAPI_MILLRACE_DIAGNOSIS_H_
#define MILLRACE_CAPI_MILLRACE_DIAGNOSIS_H_

#include <stddef.h>
#include <stdint.h>

#include "millrace.h"
#include "millrace_device.h"

// The reason for which a program waits for its batches, and the change that would help most, by the
// rules of millrace.h. docs/diagnosis.md has the model. Loaders are measured whether they are
// diagnosed or not.

#ifdef __cplusplus
extern "C" {
#endif

// The names of the settings that a diagnosis proposes; $0 stands for the value. NULL: the fields of
// millrace.h.
typedef struct mr_diagnosis_options {
  size_t struct_size;
  const char* threads;        // of the context; NULL: "threads = $0"
  const char* memory_budget;  // of the context, in MiB; NULL: "memory_budget_bytes = $0 << 20"
  const char* cpu_budget;     // of the loader; NULL: "cpu_budget = $0"
  const char* prefetch;       // of the loader; NULL: "prefetch_batches = $0"
} mr_diagnosis_options;

// A diagnosis. The texts live during the call that gets them.
typedef struct mr_diagnosis {
  size_t struct_size;
  const char* verdict;   // "NOT input-bound", "MODERATELY input-bound" or "HIGHLY input-bound"
  const char* sentence;  // verdict, limit and change: the line that `millrace run` ends with
  const char* json;      // all numbers, as the member `diagnosis` of `millrace run --json`
  double wait_fraction;  // the part of the time in which the program waited for batches
} mr_diagnosis;

// Calls `visit` with the diagnosis of the time since the loader was opened, moved (mr_loader_seek,
// mr_loader_restore) or measured anew, before it returns. Reads some files of /proc, and never
// waits. The use of processors and of the memory budget is that of all loaders together. `options`
// may be NULL.
//   MR_INVALID_ARGUMENT     the struct is not valid
//   MR_FAILED_PRECONDITION  in a forked child
MR_API mr_error* mr_loader_diagnose(const mr_loader* loader, const mr_diagnosis_options* options,
                                    void (*visit)(void* user, const mr_diagnosis* diagnosis),
                                    void* user);
// Begins the time of mr_loader_diagnose here.
//   MR_FAILED_PRECONDITION  in a forked child
MR_API mr_error* mr_loader_measure_anew(mr_loader* loader);

// The same of a feed. Batches that it has copied ahead count as delivered. Waits for copies are no
// part of wait_fraction; the JSON's member `copies` has them.
MR_API mr_error* mr_feed_diagnose(const mr_feed* feed, const mr_diagnosis_options* options,
                                  void (*visit)(void* user, const mr_diagnosis* diagnosis),
                                  void* user);
MR_API mr_error* mr_feed_measure_anew(mr_feed* feed);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_CAPI_MILLRACE_DIAGNOSIS_H_
