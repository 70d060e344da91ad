#include "pipeline/executor/ring.h"

namespace millrace::pipeline {
namespace {

// How long a consumer may have waited before it is woken between two short items. A wake-up takes
// about 10 us of processor time, more than a batch of a thousand numbers.
constexpr int64_t kWakeNanoseconds = 500'000;

}  // namespace

void Ring::Begin(uint64_t next_batch, std::string token) {
  Clear();
  next_batch_ = next_batch;
  token_ = std::move(token);
}

void Ring::Clear() {
  batches_.clear();
  filled_.clear();
  num_ready_ = 0;
  opening_ = error_seen_ = wake_due_ = false;
}

std::unique_ptr<OpenBatch> Ring::BeginOpening(uint64_t index) {
  opening_ = true;
  next_batch_ = index + 1;
  if (idle_.empty()) return nullptr;
  std::unique_ptr<OpenBatch> batch = std::move(idle_.back());
  idle_.pop_back();
  return batch;
}

void Ring::EndOpening(std::unique_ptr<OpenBatch> batch) {
  opening_ = false;
  error_seen_ = error_seen_ || !batch->error.ok();
  batches_.push_back(std::move(batch));
}

OpenBatch* Ring::TakeFilled() {
  if (filled_.empty()) return nullptr;
  OpenBatch* const batch = filled_.back();
  filled_.pop_back();
  return batch;
}

void Ring::PutReady(OpenBatch* batch, bool items_are_short) {
  batch->ready = true;
  ++num_ready_;
  items_are_short_ = items_are_short;
  if (batch != batches_.front().get()) return;
  // The worker that is here calls the consumer soon; until then there may be more batches.
  if (consumer_waits() && items_are_short) {
    wake_due_ = true;
  } else {
    call_consumer_ = true;
  }
}

std::unique_ptr<OpenBatch> Ring::TakeFront() {
  std::unique_ptr<OpenBatch> batch = std::move(batches_.front());
  batches_.pop_front();
  wake_due_ = false;
  --num_ready_;
  return batch;
}

void Ring::Delivered(std::unique_ptr<OpenBatch> batch, const std::string& token) {
  token_ = token;
  idle_.push_back(std::move(batch));
}

void Ring::WakeBetweenItems(int64_t now_ns, bool goes_on) {
  if (!wake_due_ || (goes_on && now_ns - wait_begins_ns_ < kWakeNanoseconds)) return;
  wake_due_ = false;
  call_consumer_ = true;
}

}  // namespace millrace::pipeline
