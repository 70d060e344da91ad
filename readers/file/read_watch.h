#ifndef MILLRACE_READERS_FILE_READ_WATCH_H_
#define MILLRACE_READERS_FILE_READ_WATCH_H_

#include <chrono>
#include <list>
#include <thread>

#include "base/io.h"
#include "base/mutex.h"
#include "readers/read_engine.h"

// Tells of reads that take too long: a disk that is dying or a server that is gone would otherwise
// be a pipeline that stands still without a word.
//
// It only tells. The kernel may still write to the buffer of a read that hangs, and nothing takes
// the read back, so the buffer cannot be given to anybody else, and a thread that waits has nothing
// to go on with: an error in place of the bytes would end a stream that a server's return would let
// go on.

namespace millrace::readers {

// Thread-safe.
class ReadWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Read {
    const ReadRequest* request;
    Clock::time_point begin;
    bool overdue = false;  // true once that has been reported
  };
  using Place = std::list<Read>::iterator;

  // Looks at the reads under way every quarter of the deadline. Without a deadline, a report or a
  // thread that the system has to give it does nothing.
  explicit ReadWatch(ReadWatchOptions options);
  ~ReadWatch();

  // Between the two `request` must live.
  Place Begin(const ReadRequest& request, Clock::time_point now);
  void End(Place read, Clock::time_point now);

  // Reports what has become overdue; its thread does so.
  void Look(Clock::time_point now);

 private:
  void Watch();
  OverdueRead Describe(const Read& read, Clock::time_point now, bool over) const;

  const ReadWatchOptions options_;
  Mutex mu_;
  CondVar stop_;
  std::list<Read> reads_ MILLRACE_GUARDED_BY(mu_);  // under way, oldest first
  bool stopping_ MILLRACE_GUARDED_BY(mu_) = false;  // true if the thread is to end
  std::jthread thread_;                             // last, as it uses the rest
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_READ_WATCH_H_
