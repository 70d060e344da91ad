#ifndef MILLRACE_PIPELINE_EXECUTOR_RING_H_
#define MILLRACE_PIPELINE_EXECUTOR_RING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/run/open_batch.h"

// The ring of open batches: those that were opened and not delivered, in the order of the stream.
// It knows which batch is opened next, which ones are filled or ready, and when the consumer, who
// waits for the front, is to be woken.
//
// A batch of a thousand numbers takes less time than a thread takes to wake (about 10 us of
// processor time on both sides). So where items are short, one wake-up serves several batches: a
// consumer that waits is woken once it has waited 500 us or the workers have nothing left to do,
// and workers that have filled the ring are woken when half of it is gone.

namespace millrace::pipeline {

// Thread-compatible; the executor's mutex guards it.
class Ring {
 public:
  // `length`: the most open batches, and the most that SetLength may set.
  explicit Ring(int length) : length_(length) { filled_.reserve(static_cast<size_t>(length)); }

  // Drops all batches; `next_batch` is opened next. `token` is that of the place before it.
  void Begin(uint64_t next_batch, std::string token);
  void Clear();

  bool empty() const { return batches_.empty(); }
  size_t num_open() const { return batches_.size(); }
  int length() const { return length_; }
  void SetLength(int length) { length_ = length; }
  // The number of batches that could be delivered.
  int num_ready() const { return num_ready_; }

  // Opening, one batch at a time.
  uint64_t next_batch() const { return next_batch_; }
  bool opening() const { return opening_; }
  // True while another batch is wanted: there is room, all rows so far were claimed, and no batch
  // before it is an error.
  bool MayOpen() const {
    return !opening_ && !error_seen_ && batches_.size() < static_cast<size_t>(length_) &&
           !HasUnclaimedRows();
  }
  // A worker opens batch `index`. Returns an idle batch to make it of, or nullptr.
  std::unique_ptr<OpenBatch> BeginOpening(uint64_t index);
  void EndOpening(std::unique_ptr<OpenBatch> batch);
  // An error was found, so no later batch is needed.
  void NoteError() { error_seen_ = true; }
  bool error_seen() const { return error_seen_; }

  // Rows of the batch that was opened last are claimed before the next one is opened.
  bool HasUnclaimedRows() const {
    return !batches_.empty() && batches_.back()->claimed_rows < batches_.back()->num_work_rows;
  }
  // REQUIRES: !empty().
  OpenBatch& last() { return *batches_.back(); }
  const OpenBatch& last() const { return *batches_.back(); }

  // Batches whose rows have landed and which are to be worked on as a whole.
  void PutFilled(OpenBatch* batch) { filled_.push_back(batch); }
  size_t num_filled() const { return filled_.size(); }
  // Returns one of them, or nullptr.
  OpenBatch* TakeFilled();

  // A batch is ready. `items_are_short`: true if the next item of any worker ends soon.
  void PutReady(OpenBatch* batch, bool items_are_short);
  // True if the front can be delivered. REQUIRES: !empty().
  bool front_is_ready() const { return batches_.front()->ready; }
  // Takes the front out. REQUIRES: front_is_ready().
  std::unique_ptr<OpenBatch> TakeFront();
  // The front was delivered behind `token`; its memory serves another batch.
  void Delivered(std::unique_ptr<OpenBatch> batch, const std::string& token);
  // False while enough of the ring is left that workers need not be woken for what was taken.
  bool RefillIsDue() const { return num_ready_ <= length_ / 2 || !items_are_short_; }
  // The token of the batch delivered last, or of the place where the stream began.
  const std::string& token() const { return token_; }
  void SetToken(std::string token) { token_ = std::move(token); }

  // The consumer's wait.
  bool consumer_waits() const { return wait_begins_ns_ >= 0; }
  int64_t wait_begins_ns() const { return wait_begins_ns_; }  // -1: it does not wait
  void BeginWait(int64_t now_ns) { wait_begins_ns_ = now_ns; }
  // Returns how long it waited. REQUIRES: consumer_waits().
  int64_t EndWait(int64_t now_ns) { return now_ns - std::exchange(wait_begins_ns_, -1); }

  // The consumer is called when the mutex is free again.
  void CallConsumer() { call_consumer_ = true; }
  bool consumer_to_call() const { return call_consumer_; }
  bool TakeConsumerCall() { return std::exchange(call_consumer_, false); }
  // True if the consumer was not called for a front that is ready, and is to be called soon.
  bool wake_is_due() const { return wake_due_; }
  // Called between two items: calls such a consumer if it has waited long or if the worker has
  // nothing left to do.
  void WakeBetweenItems(int64_t now_ns, bool goes_on);

 private:
  // All that a delivery needs lies side by side: after a pause none of it is in a cache.
  bool wake_due_ = false;         // true if the consumer is to be called soon
  bool call_consumer_ = false;    // true if it is called when the mutex is free
  bool items_are_short_ = false;  // true if they were when a batch was ready last
  bool opening_ = false;          // true while a worker opens a batch
  bool error_seen_ = false;       // true once an error was found
  int num_ready_ = 0;
  int length_;
  int64_t wait_begins_ns_ = -1;
  std::deque<std::unique_ptr<OpenBatch>> batches_;
  std::vector<std::unique_ptr<OpenBatch>> idle_;
  std::string token_;
  uint64_t next_batch_ = 0;
  std::vector<OpenBatch*> filled_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_RING_H_
