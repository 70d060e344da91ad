#ifndef MILLRACE_PIPELINE_RUN_READ_BUFFER_H_
#define MILLRACE_PIPELINE_RUN_READ_BUFFER_H_

#include <cstddef>
#include <memory>

// Memory for the frames of one run. Large buffers are mapped, each by itself: malloc keeps what a
// thread has freed for that thread, so with many workers buffers of a megabyte would stay in the
// process several times over, where no budget counts them (measured with 8 workers, 1 MiB records
// and a budget of 32 MiB: 122 MiB).
//
// Of those up to 3 MiB each thread keeps what it freed last, 4 MiB at most, for the next ones it
// makes: fresh pages cost more than the bytes that are read into them.

namespace millrace::pipeline {

struct FreeReadBuffer {
  size_t capacity = 0;  // what MakeReadBuffer made it with
  void operator()(std::byte* memory) const;
};
using ReadBuffer = std::unique_ptr<std::byte[], FreeReadBuffer>;

// Returns at least so much memory, with anything in it, or nullptr when there is none.
ReadBuffer MakeReadBuffer(size_t bytes);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_RUN_READ_BUFFER_H_
