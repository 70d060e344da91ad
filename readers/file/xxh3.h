#ifndef MILLRACE_READERS_FILE_XXH3_H_
#define MILLRACE_READERS_FILE_XXH3_H_

// XXH3 of much data: with the widest vectors that the processor has, where the library chooses at
// run time. xxhash.h alone has SSE2 in a distribution's build.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif  // MILLRACE_READERS_FILE_XXH3_H_
