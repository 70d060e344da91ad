#ifndef MILLRACE_PIPELINE_RUN_READ_BUFFER_H_
#define MILLRACE_PIPELINE_RUN_READ_BUFFER_H_

#include <cstddef>
#include <memory>

// Memory for the frames of one run. Large buffers are mapped, each by itself: malloc keeps freed
// memory for the thread that freed it, so with many workers buffers of a megabyte would stay in the
// process several times over, where no budget counts them (measured with 8 workers, 1 MiB records
// and a budget of 32 MiB: 122 MiB).
//
// Each thread keeps the buffers that it freed last, up to 4 MiB and none above 3 MiB, for its next
// runs: fresh pages cost more than the bytes that are read into them.

namespace millrace::pipeline {

struct FreeReadBuffer {
  size_t capacity = 0;  // the bytes that MakeReadBuffer allocated
  void operator()(std::byte* memory) const;
};
using ReadBuffer = std::unique_ptr<std::byte[], FreeReadBuffer>;

// Returns at least `bytes` of uninitialised memory, or nullptr if there is none.
ReadBuffer MakeReadBuffer(size_t bytes);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_READ_BUFFER_H_
