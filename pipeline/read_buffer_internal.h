#ifndef MILLRACE_PIPELINE_READ_BUFFER_INTERNAL_H_
#define MILLRACE_PIPELINE_READ_BUFFER_INTERNAL_H_

#include <cstddef>
#include <memory>

// Memory for the frames of one run. Large buffers are mapped, each by itself: malloc keeps what a
// thread has freed for that thread, so with many workers buffers of a megabyte would stay in the
// process several times over, where no budget counts them (measured with 8 workers, 1 MiB records
// and a budget of 32 MiB: 122 MiB).

namespace millrace::pipeline {

struct FreeReadBuffer {
  size_t mapped_bytes = 0;  // 0: from new[]
  void operator()(std::byte* memory) const;
};
using ReadBuffer = std::unique_ptr<std::byte[], FreeReadBuffer>;

// Returns uninitialised memory, or nullptr when there is none.
ReadBuffer MakeReadBuffer(size_t bytes);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_READ_BUFFER_INTERNAL_H_
