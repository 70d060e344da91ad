#ifndef MILLRACE_PIPELINE_DEVICE_FEED_H_
#define MILLRACE_PIPELINE_DEVICE_FEED_H_

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

// Batches on the device. While the consumer works on batch g, batches g+1.. are copied on a stream
// of the feed's own; each batch has an event that the consumer's stream waits for, so the host
// never does. docs/handoff.md tells the story with a picture.
//
//   while (true) {
//     MILLRACE_ASSIGN_OR_RETURN(std::optional<DeviceBatch> batch, feed->Next());
//     if (!batch.has_value()) break;
//     MILLRACE_RETURN_IF_ERROR(batch->WaitOn(stream));
//     Train<<<..., stream>>>(batch->Find("image").data, ...);
//     MILLRACE_RETURN_IF_ERROR(batch->RecordUse(stream));
//   }
//
// A `stream` is a cudaStream_t of the feed's device, passed as void*, so that no CUDA type appears
// here; nullptr is the legacy default stream.

namespace millrace::pipeline {

struct DeviceBatchData;  // pipeline/device/handoff.h
class Handoff;           // pipeline/device/handoff.h

// A borrowed dense tensor in device memory, row-major and contiguous, aligned to 256 bytes. A value
// type.
struct DeviceTensorView {
  void* data = nullptr;  // on the device: the host must not look at it
  DType dtype = DType::kU8;
  Shape shape;

  size_t size_bytes() const { return static_cast<size_t>(shape.num_elements()) * SizeOf(dtype); }
};

// One rank's slice of a global batch, its tensors in device memory. A handle: copies share the
// slab. The slab is used again when the last handle is dropped and every stream told by RecordUse
// is past its use. A batch may outlive its feed and its pipeline. Thread-safe; but the last handle
// must not be dropped in a callback of the driver (cudaLaunchHostFunc), which may not call it.
class DeviceBatch {
 public:
  explicit DeviceBatch(std::shared_ptr<DeviceBatchData> data) : data_(std::move(data)) {}

  // As Batch; ids and valid bytes lie in host memory and live as long as a handle does.
  uint64_t index() const;
  uint64_t epoch() const;
  bool ends_epoch() const;
  int64_t num_rows() const;
  int64_t num_valid_rows() const;
  int64_t num_global_valid_rows() const;
  int64_t first_global_row() const;
  std::span<const uint8_t> valid() const;
  std::span<const SampleId> ids() const;
  const std::string& resume_token() const;

  // The tensors of the host's batch, in the same order, under the same names, with the same dtypes
  // and shapes.
  std::span<const std::string> names() const;
  const DeviceTensorView& tensor(size_t i) const;
  // Returns the tensor of that name; a view with data == nullptr when there is none.
  DeviceTensorView Find(std::string_view name) const;

  // Makes work issued on `stream` from now on wait for the tensors' bytes. Does not block the host.
  //   OK, or the driver's error
  absl::Status WaitOn(void* stream) const;

  // Tells that work issued on `stream` so far uses the tensors: the slab is not written again
  // before that work is done. Does not block the host. REQUIRED before the last handle is dropped,
  // once per stream, after the last use on it. That work must not wait for anything that the
  // program does only after a later Next.
  //   OK, or the driver's error: then synchronise `stream` before dropping the batch
  absl::Status RecordUse(void* stream) const;

  // True when the bytes have arrived; an error when their copy failed. Never blocks.
  absl::StatusOr<bool> Ready() const;

 private:
  std::shared_ptr<DeviceBatchData> data_;
};

struct DeviceFeedOptions {
  int device = 0;  // CUDA's ordinal

  // performance only: results are the same for every value
  // Batches whose copy is issued before Next asks for them. Each costs a device slab and, until its
  // copy is done, a host slab; 1 hides the copy behind a steady consumer, more only smooth bursts.
  int ring = 2;
  // For slabs in use, copied ahead and kept for reuse. A batch larger than this is admitted when no
  // other has a slab.
  int64_t max_device_bytes = int64_t{2} << 30;

  // Names the first bad field.
  absl::Status Validate() const;
};

// Runs a pipeline and copies its batches to a device, in order.
//
// There is no thread of its own. Next issues the copy of every batch that is ready, up to `ring`,
// before it returns. Where the pipeline is ahead of the consumer that is all that could be done;
// where it is behind, the batch's making is what takes long, and it goes on in the pipeline's
// workers while its predecessor is copied.
//
// Next and Poll from one thread at a time; Cancel from any.
class DeviceFeed {
 public:
  //   UNIMPLEMENTED        this build has no CUDA parts
  //   FAILED_PRECONDITION  the driver or a device is missing; the message says which
  //   INVALID_ARGUMENT     an option, or no device of that ordinal
  //   RESOURCE_EXHAUSTED, INTERNAL  the driver's error
  static absl::StatusOr<std::unique_ptr<DeviceFeed>> Open(std::unique_ptr<Pipeline> pipeline,
                                                          const DeviceFeedOptions& options = {});
  explicit DeviceFeed(std::unique_ptr<Handoff> handoff);  // on another device: for tests
  // Cancels, and waits for the pipeline's work and for copies under way: they read host slabs. It
  // waits for recorded uses only where such a copy does.
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  // Waits for the pipeline's next batch, not for its copy.
  //   value      a batch whose copy is issued; see DeviceBatch::WaitOn
  //   nullopt    the end of the stream; every later call returns nullopt too
  //   CANCELLED  Cancel was called
  //   RESOURCE_EXHAUSTED  and IsRetryable (base/status.h): the consumer holds so many batches that
  //              max_device_bytes, or the pipeline's memory budget, has no room for the next: drop
  //              batches and call again. Without the mark it is an error as any other
  //   other      the pipeline's error, or that of this batch's copy; earlier batches were
  //              delivered, and every later call returns the same error. A copy that fails after
  //              its batch was delivered is the error of the next call.
  absl::StatusOr<std::optional<DeviceBatch>> Next();

  // Does what Next does on the side, and never waits: gives back host slabs whose copies are done
  // and issues copies of batches that are ready. For a program whose steps are long waits of the
  // host; all others need not call it.
  void Poll();

  // Makes every present and later Next return CANCELLED. Thread-safe.
  void Cancel();

  const Pipeline& pipeline() const;

 private:
  const std::unique_ptr<Handoff> handoff_;
};

// The devices that this build can feed, for people: "cuda 12.4" (the version of the runtime), or
// "none built in". Needs no driver.
std::string BuiltInDevices();

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DEVICE_FEED_H_
