#ifndef MILLRACE_CAPI_MILLRACE_PUSH_H_
#define MILLRACE_CAPI_MILLRACE_PUSH_H_

#include <stddef.h>
#include <stdint.h>

#include "millrace.h"

// More ways to push records (mr_push_create), by the rules of millrace.h: without a copy, and for
// programs that must not wait.

#ifdef __cplusplus
extern "C" {
#endif

// A record in the program's memory, which is read where it lies.
typedef struct mr_lent_record {
  size_t struct_size;
  const void* data;  // must not change until it is released; may be NULL if size is 0
  size_t size;
  // Called once, when the memory is not read any more: when the last row that is made of the record
  // was delivered or dropped, or the loader or the source has ended; and before mr_push_lend
  // returns if the record is not taken, also if the call fails behind the check of the struct. Any
  // thread calls it, several at once for different records. It must not call Millrace. May be NULL.
  void (*release)(void* user);
  void* user;
} mr_lent_record;
// Does what mr_push_push_for does, without a copy.
MR_API mr_error* mr_push_lend(mr_push* push, const mr_lent_record* record, int64_t timeout_ns,
                              int32_t* taken);

// Calls `call` once, in any thread, when a record may be taken that was refused since the source
// was full, and when the stream ends; also if this call fails. Room that was made before does not
// count: try again behind this call. `call` must not wait, and must not call Millrace.
MR_API mr_error* mr_push_on_room(mr_push* push, void (*call)(void* user), void* user);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_CAPI_MILLRACE_PUSH_H_
