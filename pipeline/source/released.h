#ifndef MILLRACE_PIPELINE_SOURCE_RELEASED_H_
#define MILLRACE_PIPELINE_SOURCE_RELEASED_H_

#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace millrace::pipeline {

// The owners of records that a source holds no more; they end with it. That may call the program:
// hold no lock then. May outlive the source.
class ReleasedRecords {
 public:
  using Owner = std::shared_ptr<const void>;
  // Those of one source that have not ended. Thread-safe.
  class Count {
   public:
    void Begin() MILLRACE_EXCLUDES(mu_) {
      MutexLock lock(mu_);
      ++count_;
    }
    void End() MILLRACE_EXCLUDES(mu_) {
      MutexLock lock(mu_);
      if (--count_ == 0) none_.NotifyAll();
    }
    // Waits until all have ended.
    void Wait() MILLRACE_EXCLUDES(mu_) {
      MutexLock lock(mu_);
      while (count_ > 0) none_.Wait(mu_);
    }

   private:
    Mutex mu_;
    CondVar none_;
    int count_ MILLRACE_GUARDED_BY(mu_) = 0;
  };

  ReleasedRecords() = default;  // none
  ReleasedRecords(std::vector<Owner> owners, std::shared_ptr<Count> count)
      : count_(std::move(count)), owners_(std::move(owners)) {
    count_->Begin();
  }
  ReleasedRecords(ReleasedRecords&&) noexcept = default;
  ~ReleasedRecords() {
    owners_.clear();
    if (count_ != nullptr) count_->End();
  }

  bool empty() const { return owners_.empty(); }

 private:
  std::shared_ptr<Count> count_;  // null: none
  std::vector<Owner> owners_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_SOURCE_RELEASED_H_
