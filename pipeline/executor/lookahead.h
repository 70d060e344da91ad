#ifndef MILLRACE_PIPELINE_EXECUTOR_LOOKAHEAD_H_
#define MILLRACE_PIPELINE_EXECUTOR_LOOKAHEAD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/run.h"
#include "pipeline/executor/parts.h"
#include "pipeline/order/order.h"
#include "pipeline/order/sample_windows.h"
#include "readers/record.h"

// The records behind URLs that a stream will read, told to the source before their turn. The order
// is arithmetic, so nothing has to be guessed: the rows of a rank (with a cut, the positions that
// pass 1 looks at) are cut into chunks, the records of a chunk are expected together
// (RecordSource::Expect), and as many chunks are on their way as the limit allows. A chunk is
// forgotten when all its rows were read.
//
// The chunks of a block-wise global_shuffle are its windows: each block is one request or a few,
// and comes once.
//
// A row that is a window over other samples has the records of all its elements. Those that windows
// of a chunk share are expected once.

namespace millrace::pipeline {

// Rows go by their positions: in the stream (OpenBatch::first_position), or with a cut in the only
// lane. Thread-safe, but for Clear and Reach: one worker at a time plans.
class Lookahead {
 public:
  // Borrows the parts. REQUIRES: parts.lookahead has a value; without a cut, or with one lane.
  explicit Lookahead(const ExecutorParts& parts);

  // Forgets all chunks; the next Reach begins anew. Nothing is planned or read.
  void Clear() MILLRACE_EXCLUDES(mu_);

  // Expects the rows in front of `end`, and more, as far as there is room. The first call begins at
  // `first`, without a cut the first row of a batch. With a cut, positions between the `end` of the
  // call before and `first` will not be read: pass 1 passes over the rest of a pass behind a take.
  void Reach(uint64_t first, uint64_t end) MILLRACE_EXCLUDES(mu_);
  // The positions from `position` on that are in its chunk. REQUIRES: it was reached, and its row
  // was not read since.
  uint64_t LeftInChunk(uint64_t position) const MILLRACE_EXCLUDES(mu_);
  // The records of `rows` rows from `position` on were read.
  void Read(uint64_t position, int64_t rows) MILLRACE_EXCLUDES(mu_);

 private:
  struct Chunk {
    uint64_t group = 0;
    uint64_t end = 0;         // position behind its last row
    uint64_t pass_epoch = 0;  // the pass of its rows
    uint64_t window_end = 0;  // the end of their window in that pass
    uint64_t epoch = 0;       // the epoch of its rows
    int64_t rows_left = 0;    // rows that were not read
    uint64_t bytes = 0;
  };
  // Rows that follow each other in a pass over the order.
  struct Stretch {
    uint64_t position = 0;       // of the first row
    uint64_t pass_epoch = 0;     // the epoch in which the pass begins
    uint64_t pass_position = 0;  // the position of the first row in the pass
    uint64_t rows = 0;
  };

  void PassOver(uint64_t position) MILLRACE_EXCLUDES(mu_);
  bool Expect() MILLRACE_EXCLUDES(mu_);
  bool NextRows(Chunk& chunk);
  bool NextStretch();
  bool NextBatch();
  bool NextPositions();
  void Locate(size_t rows);
  size_t Append(size_t rows, Chunk& chunk);
  void AppendElement(size_t element, Chunk& chunk);
  std::deque<Chunk>::const_iterator ChunkOf(uint64_t position) const MILLRACE_REQUIRES(mu_);

  // Constant after construction.
  const ExecutorParts& parts_;
  const LookaheadSizes sizes_;
  const Order order_;
  const uint64_t pass_epochs_;  // epochs from one pass to the next, with a cut
  const uint64_t end_;          // batches, with a cut positions, of the whole stream
  const bool has_windows_;      // true if chunks are the windows of a shuffle
  const bool has_epochs_;       // true if the epochs of rows are those of one source
  const size_t row_elements_;   // elements of a row: above 1 if rows are windows

  // Owned by the worker that plans.
  OrderMemo memo_;
  bool begun_ = false;
  uint64_t next_ = 0;     // the batch behind `stretch_`, with a cut the position
  uint64_t asked_ = 0;    // with a cut, the end of the last Reach
  Stretch stretch_;       // the rows that are expected next
  uint64_t reached_ = 0;  // the position behind the last row that is expected
  uint64_t next_group_ = 0;
  std::vector<SampleId> ids_;
  WindowElements elements_;                         // of the rows, if they are windows
  std::set<std::pair<uint64_t, uint64_t>> shared_;  // elements of the chunk, if rows are windows
  std::vector<SampleId> zipped_;
  std::vector<readers::RecordRef> located_;
  std::vector<size_t> starts_;
  std::vector<readers::RecordRef> refs_;  // of a chunk

  mutable Mutex mu_;
  std::deque<Chunk> chunks_ MILLRACE_GUARDED_BY(mu_);     // that are not forgotten, in order
  uint64_t expected_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;  // of them
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_LOOKAHEAD_H_
