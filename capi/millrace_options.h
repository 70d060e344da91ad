#ifndef MILLRACE_CAPI_MILLRACE_OPTIONS_H_
#define MILLRACE_CAPI_MILLRACE_OPTIONS_H_

#include <stddef.h>
#include <stdint.h>

#include "millrace.h"

// Options that few programs need, by the rules of millrace.h: memory of the program in which
// batches lie, and how files behind URLs are read.

#ifdef __cplusplus
extern "C" {
#endif

// The program's memory for batches, such as shared or page-locked memory (mr_context_options). The
// calls are made by any thread, by several at once, also when the context has been given back, as
// long as there are batches. They must not call Millrace.
typedef struct mr_batch_memory {
  size_t struct_size;
  // Returns `bytes` > 0 bytes, aligned to `alignment`, or NULL: then mr_loader_next is
  // MR_RESOURCE_EXHAUSTED.
  void* (*alloc)(void* user, size_t bytes, size_t alignment);
  // Takes back what `alloc` returned for `bytes`, once.
  void (*dealloc)(void* user, void* memory, size_t bytes);
  void* user;
  // Called once, when none of that memory is used any more, also if mr_context_create fails behind
  // the check of the struct. May be NULL.
  void (*destroy)(void* user);
} mr_batch_memory;

// How files behind URLs are read (mr_open_options). A number that is 0 has its default; one below 0
// is none.
typedef struct mr_http_options {
  size_t struct_size;
  const char* ca_file;    // certificates that servers are checked against; NULL: the system's
  int32_t max_redirects;  // redirects of one request; 0: 5
  int32_t max_attempts;   // attempts of one request, the first included; 0: 5
  int64_t
      max_retry_time_ms;  // longest time from the first attempt to the begin of the last; 0: 60 s
  // An attempt ends after this time with fewer than `min_bytes_per_second`; 0: 30 s and 1024.
  int64_t stall_time_ms;
  int64_t min_bytes_per_second;
  int64_t backoff_ms;      // wait before the second attempt, twice as long later; 0: 200 ms
  int64_t max_backoff_ms;  // longest wait; 0: 10 s
  // For speed only: the batches are the same for every value.
  int64_t block_bytes;        // bytes of a request for a block; 0: 4 MiB
  int64_t cache_bytes;        // blocks kept in memory, at least two; 0: 64 MiB
  int32_t read_ahead_blocks;  // blocks fetched ahead of a reader in order; 0: 4
  int32_t max_in_flight;      // requests at once, and connections kept; 0: 32
  // Adds headers ("Name: value") to a request for bytes `first` to `last` (included) of `url`, by a
  // call add(headers, text, size) for each, such as the signature that a store asks for. Called for
  // every attempt, by any thread, by several at once; it must not call Millrace. May be NULL.
  void (*sign)(void* user, const char* url, uint64_t first, uint64_t last, mr_sink add,
               void* headers);
  void* sign_user;
  // Called once, when `sign` will not be called any more, also if the call that opens fails behind
  // the check of the struct. May be NULL.
  void (*sign_destroy)(void* user);
} mr_http_options;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_CAPI_MILLRACE_OPTIONS_H_
