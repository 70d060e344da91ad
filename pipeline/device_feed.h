#ifndef MILLRACE_PIPELINE_DEVICE_FEED_H_
#define MILLRACE_PIPELINE_DEVICE_FEED_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/run.h"
#include "base/shape.h"
#include "pipeline/pipeline.h"
#include "pipeline/profile.h"

// Batches in device memory. While the consumer works on a batch, the next ones are copied on a
// stream of the feed's own. Each batch has an event for which the consumer's stream waits, so that
// the host does not (docs/handoff.md, with a picture).
//
//   while (true) {
//     MILLRACE_ASSIGN_OR_RETURN(std::optional<DeviceBatch> batch, feed->Next());
//     if (!batch.has_value()) break;
//     MILLRACE_RETURN_IF_ERROR(batch->WaitOn(stream));
//     Train<<<..., stream>>>(batch->Find("image").data, ...);
//     MILLRACE_RETURN_IF_ERROR(batch->RecordUse(stream));
//   }
//
// A `stream` is a cudaStream_t (the driver's CUstream) in the primary context of the feed's device,
// which the CUDA runtime, PyTorch and JAX use; nullptr is the legacy default stream. It is passed
// as void*: no header of CUDA is needed, and the driver is loaded when a feed is opened.
//
// The pipeline should be opened with OpenOptions.pinned_for set to the feed's device. Copies from
// pageable memory are slower, and the host may wait for them.

namespace millrace::pipeline {

struct DeviceBatchData;  // pipeline/device/handoff.h
class Handoff;           // pipeline/device/handoff.h

// A view of a dense tensor in device memory: row-major, contiguous, aligned to 256 bytes. A value
// type; it does not own the memory.
struct DeviceTensorView {
  void* data = nullptr;  // device memory, which the host must not read
  DType dtype = DType::kU8;
  Shape shape;

  size_t size_bytes() const { return static_cast<size_t>(shape.num_elements()) * SizeOf(dtype); }
};

// One rank's slice of a global batch, with its tensors in device memory. A DeviceBatch is a handle:
// copies share the slab. The slab is used again when the last handle is gone and every stream given
// to RecordUse is past its use. A batch may outlive its feed and its pipeline. Thread-safe; but the
// last handle must not be dropped in a callback of the driver (cudaLaunchHostFunc), which may not
// call CUDA.
class DeviceBatch {
 public:
  explicit DeviceBatch(std::shared_ptr<DeviceBatchData> data) : data_(std::move(data)) {}

  // The same as in Batch. The ids, valid bytes and damaged samples lie in host memory and live as
  // long as a handle.
  uint64_t index() const;
  uint64_t epoch() const;
  bool ends_epoch() const;
  int64_t num_rows() const;
  int64_t num_valid_rows() const;
  int64_t num_global_valid_rows() const;
  int64_t first_global_row() const;
  std::span<const uint8_t> valid() const;
  std::span<const SampleId> ids() const;
  std::span<const DamagedSample> damaged() const;
  const std::string& resume_token() const;

  // The tensors of the batch, in the order, with the names, dtypes and shapes of Batch.
  std::span<const std::string> names() const;
  const DeviceTensorView& tensor(size_t i) const;
  // Returns the tensor of that name; a view with data == nullptr if there is none.
  DeviceTensorView Find(std::string_view name) const;

  // The batch in the host's memory. REQUIRES: DeviceFeedOptions::keeps_host.
  const Batch& host() const;

  // Makes the work that is issued on `stream` from now on wait for the tensors' bytes. Does not
  // block the host.
  //   OK, or the driver's error
  absl::Status WaitOn(void* stream) const;

  // Records that the work issued on `stream` so far uses the tensors, so that the slab is not
  // written before that work is done. Does not block the host. REQUIRED before the last handle is
  // dropped, once per stream, after the last use on it. That work must not wait for anything that
  // the program does only after a later Next.
  //   OK, or the driver's error; after an error, Synchronize before the batch is dropped
  absl::Status RecordUse(void* stream) const;

  // Blocks the host until the work issued on `stream` so far is done or has failed.
  //   OK, or the driver's error, which says that no such work runs any more
  absl::Status Synchronize(void* stream) const;

  // Returns true if the bytes have arrived, and an error if their copy failed. Never blocks.
  absl::StatusOr<bool> Ready() const;

 private:
  std::shared_ptr<DeviceBatchData> data_;
};

struct DeviceFeedOptions {
  int device = 0;  // CUDA's ordinal
  // True if each batch stays in the host's memory too, as long as a handle lives: for consumers of
  // which a part reads labels there. Takes one host slab more for each batch ahead.
  bool keeps_host = false;

  // performance only: results are the same for every value
  // The number of batches whose copies are issued before Next asks for them. Each takes a device
  // slab and, until its copy is done, a host slab. 1 hides the copies behind a steady consumer;
  // more help only a consumer whose steps differ.
  int ring = 2;
  // The most device memory for slabs: those in use, those copied ahead and those kept for reuse. A
  // larger batch gets a slab when no other batch has one.
  int64_t max_device_bytes = int64_t{2} << 30;

  // Names the first bad field.
  absl::Status Validate() const;
};

// Runs a pipeline and copies its batches to a device, in order.
//
// The feed has no thread of its own. Before Next returns it issues the copy of every batch that is
// ready, at most `ring`. If the pipeline is ahead of the consumer, a thread could do no more; if it
// is behind, its workers make the next batch while the one before is copied.
//
// Cancel and copies are called by any thread, all else by one thread at a time.
class DeviceFeed {
 public:
  // Loads the driver: the library that MILLRACE_CUDA_LIBRARY names, else libcuda.so.1.
  //   FAILED_PRECONDITION  the driver or a device is missing; the message says which
  //   INVALID_ARGUMENT     an option is wrong, or there is no device of that ordinal
  //   RESOURCE_EXHAUSTED, INTERNAL  the driver's error
  static absl::StatusOr<std::unique_ptr<DeviceFeed>> Open(std::unique_ptr<Pipeline> pipeline,
                                                          const DeviceFeedOptions& options = {});
  // Finds the device, then opens a plan with batches in page-locked memory for it, whatever
  // open_options.pinned_for says.
  //   the errors of Open above and of Pipeline::Open
  static absl::StatusOr<std::unique_ptr<DeviceFeed>> Open(const Plan& plan,
                                                          std::shared_ptr<Context> context,
                                                          OpenOptions open_options,
                                                          const DeviceFeedOptions& options = {});
  explicit DeviceFeed(std::unique_ptr<Handoff> handoff);  // for tests: on another device
  // Cancels the pipeline, and waits for its work and for the copies under way, which read host
  // slabs. Waits for recorded uses only if such a copy waits for them.
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  // Waits for the pipeline's next batch, not for its copy.
  //   value      a batch whose copy has been issued; see DeviceBatch::WaitOn
  //   nullopt    the end of the stream; every later call returns nullopt too
  //   CANCELLED  Cancel was called
  //   RESOURCE_EXHAUSTED  and IsRetryable (base/status.h): the consumer holds so many batches that
  //              max_device_bytes, or the pipeline's memory budget, has no room for the next: drop
  //              batches and call again. Without the mark it is an error like any other
  //   other      the error of the pipeline, or of this batch's copy; all earlier batches were
  //              delivered, and every later call returns the same error. The error of a copy that
  //              fails after its batch was delivered is returned by the next call.
  absl::StatusOr<std::optional<DeviceBatch>> Next();

  // Does what Next does, but waits no longer than `limit`. Returns nullopt if the limit passed
  // before there was an outcome; the next call goes on waiting for the same batch. With a limit of
  // 0 or less it does not wait.
  std::optional<absl::StatusOr<std::optional<DeviceBatch>>> NextFor(std::chrono::nanoseconds limit);

  // Gives back host slabs whose copies are done and issues the copies of batches that are ready, as
  // Next does besides. Never waits. Only a program whose host waits long in its steps needs it.
  void Poll();

  // Makes every present and later Next return CANCELLED. Thread-safe.
  void Cancel();

  // The same as those of Pipeline, of the batches that this feed has delivered. Restore and Seek
  // drop the batches that were copied ahead, and wait for copies under way, as the destructor does.
  std::string Save() const;
  absl::Status Restore(const std::string& token);
  absl::Status Seek(uint64_t batch);

  // The pipeline, which is ahead of the feed. Only the feed calls its Next, Save, Restore and Seek.
  const Pipeline& pipeline() const;
  Pipeline& pipeline();
  // The copies since the feed was opened or moved. Thread-safe.
  CopyProfile copies() const;

 private:
  const std::unique_ptr<Handoff> handoff_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DEVICE_FEED_H_
