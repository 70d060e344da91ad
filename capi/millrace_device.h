#ifndef MILLRACE_CAPI_MILLRACE_DEVICE_H_
#define MILLRACE_CAPI_MILLRACE_DEVICE_H_

#include <stddef.h>
#include <stdint.h>

#include "millrace.h"

// Batches in the memory of a GPU, for C: a part of libmillrace.so.1, by the rules of millrace.h.
//
// A feed runs a plan and copies its batches into the memory of a CUDA device, on a stream of its
// own, while the program works on the batches before. It finds CUDA's driver when it is opened.
//
//   mr_feed_next -> mr_device_batch_wait_on(stream) -> work on `stream`
//                -> mr_device_batch_record_use(stream) -> mr_device_batch_release
//
// A `stream` is a CUstream or cudaStream_t of the feed's device; NULL is the legacy default stream.
// It is not destroyed before the batches that it uses are released.
//
// A feed is used by one thread at a time, but for mr_feed_cancel; a batch by any threads at once.

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_feed mr_feed;
typedef struct mr_device_batch mr_device_batch;

typedef struct mr_feed_options {
  size_t struct_size;
  int32_t device;  // CUDA's number of the device
  // For speed only: the batches are the same for every value.
  int32_t ring;  // the number of batches copied ahead; 0: 2
  // The most device memory for batches, those held and those copied ahead; 0: 2 GiB. A batch that
  // is larger is let in alone.
  int64_t max_device_bytes;
} mr_feed_options;

// Finds the device, then opens a plan as mr_loader_open does. Batches lie in page-locked memory for
// that device, whatever `options` says. `context`, `options` and `feed_options` may be NULL.
//   MR_FAILED_PRECONDITION  there is no driver of CUDA, or no device; the message says which; or as
//                           mr_loader_open
//   MR_INVALID_ARGUMENT     an option is wrong, or there is no device of that number
//   else as mr_loader_open, or an error of the driver
MR_API mr_error* mr_feed_open(const mr_plan* plan, mr_context* context,
                              const mr_open_options* options, const mr_feed_options* feed_options,
                              mr_feed** feed);

// Waits for the next batch, as mr_loader_next does, but not for its copy.
//   MR_CANCELLED            mr_feed_cancel was called
//   MR_RESOURCE_EXHAUSTED   and mr_error_retryable: the caller holds so many batches that
//                           max_device_bytes, or the memory budget, has no room for the next one;
//                           release some and call again
//   other                   the error of mr_loader_next, or of a copy; that of a copy that fails
//                           behind the delivery of its batch is the error of the next call
MR_API mr_error* mr_feed_next(mr_feed* feed, int64_t timeout_ns, mr_device_batch** batch,
                              int32_t* outcome);
// The same without waiting: MR_TIMED_OUT if mr_feed_next would wait.
MR_API mr_error* mr_feed_try_next(mr_feed* feed, mr_device_batch** batch, int32_t* outcome);
// Begins the copies of batches that are ready, as mr_feed_next does besides. Never waits. Only a
// program that waits long in its steps needs it.
MR_API mr_error* mr_feed_poll(mr_feed* feed);
// As mr_loader_cancel.
MR_API void mr_feed_cancel(mr_feed* feed);

// As the calls of mr_loader. The state is behind the batch delivered last, however many were copied
// ahead. mr_feed_restore and mr_feed_seek wait for copies under way.
MR_API mr_error* mr_feed_save(const mr_feed* feed, mr_sink sink, void* user);
MR_API mr_error* mr_feed_restore(mr_feed* feed, const void* token, size_t token_bytes);
MR_API mr_error* mr_feed_seek(mr_feed* feed, uint64_t batch);
MR_API mr_error* mr_feed_length(const mr_feed* feed, mr_length* length);
MR_API mr_error* mr_feed_schema(const mr_feed* feed,
                                void (*visit)(void* user, const mr_field* field), void* user);
MR_API mr_error* mr_feed_locate(const mr_feed* feed, const mr_sample_id* id,
                                void (*visit)(void* user, const mr_record* record), void* user);

// Cancels the feed, waits for the work and the copies under way, and gives it back. Batches stay
// valid. No other call of this feed may be under way, mr_feed_cancel included.
MR_API void mr_feed_free(mr_feed* feed);

// A batch in the memory of a device. It is counted: mr_feed_next returns one that counts 1. Its
// memory is used again when the count is 0, and each stream of mr_device_batch_record_use has done
// what was issued on it before that call.

// As the calls of mr_batch. The data of an mr_tensor is memory of the device, aligned to 256 bytes;
// ids, valid bytes and token lie in the memory of the host.
MR_API mr_error* mr_device_batch_info(const mr_device_batch* batch, mr_info* info);
MR_API mr_error* mr_device_batch_tensor(const mr_device_batch* batch, size_t index,
                                        mr_tensor* tensor);
MR_API const uint8_t* mr_device_batch_valid(const mr_device_batch* batch);
MR_API const mr_sample_id* mr_device_batch_ids(const mr_device_batch* batch);
MR_API mr_error* mr_device_batch_damaged(const mr_device_batch* batch, size_t index, int64_t* row,
                                         mr_sample_id* id, mr_error** error);
MR_API const char* mr_device_batch_token(const mr_device_batch* batch, size_t* size);

// Makes the work that is issued on `stream` from now on wait for the batch's bytes. Does not block.
//   the error of the driver
MR_API mr_error* mr_device_batch_wait_on(const mr_device_batch* batch, void* stream);
// Says that the work issued on `stream` so far uses the batch. Does not block. Required before the
// batch is released, for each stream that uses it, behind the last use. That work must not wait for
// anything that the program does only after a later mr_feed_next.
//   the error of the driver; synchronise `stream` before the batch is released
MR_API mr_error* mr_device_batch_record_use(const mr_device_batch* batch, void* stream);
// Writes true if the bytes have arrived. Never waits.
//   the error of the copy
MR_API mr_error* mr_device_batch_ready(const mr_device_batch* batch, int32_t* ready);

// Stands for a stream where there is none to wait and to be waited for.
#define MR_NO_STREAM ((void*)-1)

// Makes the tensor number `index` a DLPack tensor on the CUDA device that shares the memory of the
// batch and counts as one of its holders. The caller owns it, and ends it by its deleter, in any
// thread but not in a callback of the driver.
//
// The work that is issued on `stream` from now on waits for the bytes, and the deleter says that
// what was issued on it by then uses them: a consumer that works on this stream alone need not do
// more. With MR_NO_STREAM neither is done, and the caller calls mr_device_batch_wait_on and
// mr_device_batch_record_use for its streams.
//   MR_OUT_OF_RANGE  there are fewer tensors
//   other            the error of the driver
MR_API mr_error* mr_device_batch_dlpack(const mr_device_batch* batch, size_t index, void* stream,
                                        struct DLManagedTensorVersioned** tensor);

// Adds 1 to the count, and returns the batch.
MR_API mr_device_batch* mr_device_batch_retain(mr_device_batch* batch);
// Takes 1 from the count. Not in a callback of the driver, which may not call CUDA.
MR_API void mr_device_batch_release(mr_device_batch* batch);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_CAPI_MILLRACE_DEVICE_H_
