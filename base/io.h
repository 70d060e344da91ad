#ifndef MILLRACE_BASE_IO_H_
#define MILLRACE_BASE_IO_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The I/O interface that a Context carries. base declares it; readers implements it.

namespace millrace {

// Bytes that can be read anywhere. Thread-safe.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Reads from `offset` until `out` is full or the file ends; blocks.
  //   value  the number of bytes read; less than out.size() only at the end of the file
  //   other  the read failed; the status names the file and the offset
  virtual absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;

  // Fills `out` from `offset` and returns true if that needs no waiting for a device (the bytes are
  // in memory). False tells nothing about the file, and leaves any bytes in `out`.
  virtual bool TryReadAt(uint64_t /*offset*/, std::span<std::byte> /*out*/) const { return false; }

  // True if StartRead may begin reads.
  virtual bool starts_reads() const { return false; }
  // Begins to fill `out` from `offset` without a thread that waits for the bytes, and returns true;
  // `out` must live until `done` has run. `done` runs once, with the outcome, on a thread of the
  // file's or before StartRead returns; it must not block. False: ReadAt reads these bytes, and
  // `done` never runs; nor does it after an exception.
  virtual bool StartRead(uint64_t /*offset*/, std::span<std::byte> /*out*/,
                         std::function<void(absl::Status)> /*done*/) const {
    return false;
  }

  // Returns bytes [offset, offset + count), which must lie inside the file, if they are in memory
  // already; they stay there as long as the result lives. Null if they can only be read.
  virtual std::shared_ptr<const std::byte> Borrow(uint64_t /*offset*/, size_t /*count*/) const {
    return nullptr;
  }

  virtual uint64_t size() const = 0;
  // For messages.
  virtual const std::string& path() const = 0;
};

// One contiguous range to read in full. A short read is DATA_LOSS.
struct ReadRequest {
  std::shared_ptr<const RandomAccessFile> file;
  uint64_t offset = 0;
  std::span<std::byte> out;  // must live until the request's `done` has run
};

// Reads in the background. Thread-safe.
class IoEngine {
 public:
  virtual ~IoEngine() = default;  // waits for reads under way; unstarted ones end as CANCELLED

  // Starts the reads of one group in order of submission and returns at once. `done` runs once,
  // after the last of them, with one status per request (in order): on an I/O thread or one of the
  // files', or, where no read has to wait for a device, before Submit returns. It must not block.
  virtual void Submit(std::vector<ReadRequest> requests,
                      std::function<void(std::vector<absl::Status>)> done) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_IO_H_
