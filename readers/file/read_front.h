#ifndef MILLRACE_READERS_FILE_READ_FRONT_H_
#define MILLRACE_READERS_FILE_READ_FRONT_H_

#include <cstdint>

#include "base/mutex.h"

namespace millrace::readers {

// One file that several threads read side by side, roughly in its order. The kernel reads far ahead
// and in large pieces (here 4 MiB) only for a strictly sequential reader; all other reads, and
// those that POSIX_FADV_WILLNEED asks for, are fetched page by page. So one of the threads that
// wait for bytes beyond the front brings the announced bytes into the page cache, the others wait
// for it, and each copies from there. Thread-safe.
class ReadFront {
 public:
  // Borrows `fd`, a regular file open for reading.
  explicit ReadFront(int fd) : fd_(fd) {}

  // [offset, end) will be read; reads are announced in about the order in which they were planned.
  // False if the page cache must not be asked for it now: the kernel takes even a question for a
  // request, and the front has not come so far.
  bool Announce(uint64_t offset, uint64_t end) MILLRACE_EXCLUDES(mu_);

  // Reports whether announced bytes were found in the page cache.
  void Found(uint64_t offset, uint64_t end) MILLRACE_EXCLUDES(mu_);
  void Missed(uint64_t offset, uint64_t end) MILLRACE_EXCLUDES(mu_);

  // Returns when announced bytes are in the page cache, or at once where reads do not come in order
  // or the disk fails: the read itself finds out what is wrong.
  void Reach(uint64_t offset, uint64_t end) MILLRACE_EXCLUDES(mu_);

 private:
  // So many reads that want half of what they span are an order.
  static constexpr int kInOrder = 3;

  void RestartLocked(uint64_t offset, int num_reads) MILLRACE_REQUIRES(mu_);
  void CountLocked(uint64_t offset, uint64_t end) MILLRACE_REQUIRES(mu_);
  bool BelongsLocked(uint64_t offset) const MILLRACE_REQUIRES(mu_);
  bool InOrderLocked() const MILLRACE_REQUIRES(mu_);
  void LeadLocked(uint64_t end) MILLRACE_REQUIRES(mu_);

  const int fd_;
  Mutex mu_;
  CondVar moved_;  // the front has moved, or another thread may lead
  // The stretch in which reads lie near each other is [begin_, top_); `wanted_` of its bytes were
  // announced.
  uint64_t begin_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t top_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t wanted_ MILLRACE_GUARDED_BY(mu_) = 0;
  // The reads since the stretch began; the first of a file may begin an order.
  int num_reads_ MILLRACE_GUARDED_BY(mu_) = kInOrder;
  uint64_t front_ MILLRACE_GUARDED_BY(mu_) = 0;  // up to here the stretch was in the page cache
  // True if the bytes at the front lie in the page cache, as far as is known: looking for them asks
  // for nothing.
  bool cached_ MILLRACE_GUARDED_BY(mu_) = true;
  bool leading_ MILLRACE_GUARDED_BY(mu_) = false;  // true if a thread moves the front on
  // False if the system or the file system cannot bring bytes into the page cache.
  bool can_lead_ MILLRACE_GUARDED_BY(mu_) = true;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_READ_FRONT_H_
