#ifndef MILLRACE_READERS_CONVERT_WORK_H_
#define MILLRACE_READERS_CONVERT_WORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/convert/input.h"
#include "readers/convert/record.h"

// The work of a conversion on several threads.

namespace millrace::readers::internal {

// Encoded records; an error stands for each that cannot be converted.
using EncodedChunk = std::vector<absl::StatusOr<EncodedRecord>>;

// The work on each of `num_chunks` stretches of records.
struct ChunkWork {
  uint64_t num_chunks = 0;
  bool fetch_in_order = false;  // true if one thread at a time fetches, in order
  std::function<absl::StatusOr<std::unique_ptr<FetchedRecords>>(uint64_t chunk)> fetch;
  std::function<absl::StatusOr<EncodedChunk>(uint64_t chunk, FetchedRecords& records)> encode;
  std::function<absl::Status(EncodedChunk)> write;
  // Called by the thread that writes while it waits, ten times a second and more; an error ends the
  // work.
  std::function<absl::Status()> wait = [] { return absl::OkStatus(); };
};

// Fetches and encodes on `threads` threads and writes on the calling one, chunk by chunk in order
// with any number of threads. At most two chunks per thread wait. Returns the error of the first
// chunk that has one, RESOURCE_EXHAUSTED for std::bad_alloc; those before it are written.
absl::Status RunInOrder(const ChunkWork& work, int threads);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_CONVERT_WORK_H_
