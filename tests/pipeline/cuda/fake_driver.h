#ifndef MILLRACE_TESTS_PIPELINE_CUDA_FAKE_DRIVER_H_
#define MILLRACE_TESTS_PIPELINE_CUDA_FAKE_DRIVER_H_

#include <stdint.h>

// What tests ask of libmillrace_fake_cuda.so (target millrace_fake_cuda), besides the functions of
// libcuda: a driver of two devices, "Fake GPU 0" and "Fake GPU 1", whose memory is the host's and
// whose work is done when it is issued. Millrace loads it where MILLRACE_CUDA_LIBRARY names it. A
// program loads the same file to ask these questions; C and Python can. All of it is thread-safe.
//
// FAKE_CUDA_DEVICES in the environment is the number of devices (0 to 2), FAKE_CUDA_VERSION the
// version of CUDA, such as 12040. With FAKE_CUDA_PEERS=0 no device reaches the memory of another,
// and with FAKE_CUDA_SPOILS_PEERS=1 each copy from one device to another has a wrong byte. The
// devices lie at 0000:3a:00.0 and 0000:3b:00.0.

#ifdef __cplusplus
extern "C" {
#endif

// How many of a kind are live: "memory" and "host_memory" (allocations), "streams", "events",
// "context_0" and "context_1" (retains of a device's context without their release), "pushed"
// (contexts that threads have pushed and not popped), "relaxed" (threads that may make every call
// during a capture). NULL: all together; another name: -1.
int64_t fake_cuda_live(const char* kind);

// How often the function of libcuda was called, such as "cuStreamCreate"; names without "_v2".
int64_t fake_cuda_calls(const char* function);

// The nth call of the function from now on, the first being 1, fails with that error of libcuda. A
// function that gives something back does so all the same. Further failures may be set.
void fake_cuda_fail(const char* function, int nth, int code);

// From now on every call fails with that error, as on a device that is lost; 0 heals it.
void fake_cuda_lose(int code);

// From now on calls of the function are counted, and wait until another one is named, or NULL.
void fake_cuda_hold(const char* function);

// From now on a CUDA graph is captured, in mode "global"; 0: no longer. Calls that may wait are
// misuses then in every thread that is not relaxed.
void fake_cuda_capture(int captures);

// The stream on which an event was recorded last; -1: none was.
int64_t fake_cuda_recorded_on(void);

// How many calls a driver would not have survived: of handles that are not live, outside of an
// allocation, without a current context, in a capture; and how often a context ended with something
// live in it, on a device that is not lost.
int64_t fake_cuda_misuses(void);

// Forgets the calls, failures and misuses so far.
void fake_cuda_reset(void);

#ifdef __cplusplus
}
#endif

#endif  // MILLRACE_TESTS_PIPELINE_CUDA_FAKE_DRIVER_H_
