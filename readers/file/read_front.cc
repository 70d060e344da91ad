#include "readers/file/read_front.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"

namespace millrace::readers {
namespace {

// Reads that are announced side by side leave smaller gaps.
constexpr uint64_t kNearBytes = uint64_t{32} << 20;
// Over stretches of this size, half of the announced bytes are forgotten.
constexpr uint64_t kMemoryBytes = uint64_t{64} << 20;
// Announced bytes are brought in such steps: a thread that waits for the first byte of a step waits
// for that step only.
constexpr uint64_t kStepBytes = uint64_t{2} << 20;
// How far the disk is asked ahead where nothing can be brought in order.
constexpr uint64_t kAskedBytes = uint64_t{8} << 20;

enum class Brought { kAll, kNotNow, kCannot };

// Like reading in order, without the copy.
Brought BringToPageCache(int fd, uint64_t begin, uint64_t end) {
  static const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!nowhere.valid()) return Brought::kCannot;
  off_t at = static_cast<off_t>(begin);
  while (at < static_cast<off_t>(end)) {
    const ssize_t sent =
        ::sendfile(nowhere.get(), fd, &at, static_cast<size_t>(end) - static_cast<size_t>(at));
    if (sent == 0) return Brought::kAll;  // the file ends; its reader says so
    if (sent > 0 || errno == EINTR) continue;
    const bool cannot = errno == EINVAL || errno == ENOSYS || errno == EBADF || errno == EPERM;
    return cannot ? Brought::kCannot : Brought::kNotNow;
  }
  return Brought::kAll;
}

// How often this thread has waited for something.
long NumWaits() {
  struct rusage usage = {};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

}  // namespace

bool ReadFront::Announce(uint64_t offset, uint64_t end) {
  const MutexLock lock(mu_);
  if (!BelongsLocked(offset)) {
    if (leading_) return true;
    RestartLocked(offset, 0);
  }
  CountLocked(offset, end);
  return !InOrderLocked() || end <= front_ || (offset <= front_ && cached_ && !leading_);
}

void ReadFront::Found(uint64_t offset, uint64_t end) {
  const MutexLock lock(mu_);
  if (offset <= front_ && !leading_) front_ = std::max(front_, end);
}

void ReadFront::Missed(uint64_t offset, uint64_t end) {
  const MutexLock lock(mu_);
  cached_ = false;
  // Bytes that the front has passed have left the page cache, mostly since an epoch ago: an order
  // begins anew.
  if (end > front_ || leading_) return;
  RestartLocked(offset, kInOrder);
  CountLocked(offset, end);
}

void ReadFront::Reach(uint64_t offset, uint64_t end) {
  const MutexLock lock(mu_);
  while (InOrderLocked() && BelongsLocked(offset) && front_ < std::min(end, top_)) {
    if (leading_) {
      moved_.Wait(mu_);
    } else {
      LeadLocked(std::min(top_, front_ + kStepBytes));
    }
  }
}

void ReadFront::RestartLocked(uint64_t offset, int num_reads) {
  begin_ = top_ = front_ = offset;
  wanted_ = 0;
  num_reads_ = num_reads;
}

void ReadFront::CountLocked(uint64_t offset, uint64_t end) {
  begin_ = std::min(begin_, offset);
  top_ = std::max(top_, end);
  // Bytes that are read twice are wanted once.
  wanted_ = std::min(wanted_ + (end - offset), top_ - begin_);
  num_reads_ = std::min(num_reads_ + 1, kInOrder);
  if (top_ - begin_ < kMemoryBytes) return;
  begin_ += (top_ - begin_) / 2;
  wanted_ /= 2;
}

bool ReadFront::BelongsLocked(uint64_t offset) const {
  return front_ <= offset + kNearBytes && offset <= top_ + kNearBytes;
}

bool ReadFront::InOrderLocked() const {
  return num_reads_ == kInOrder && wanted_ >= (top_ - begin_) / 2;
}

void ReadFront::LeadLocked(uint64_t end) {
  const uint64_t begin = front_;
  const bool can_lead = can_lead_;
  leading_ = true;
  mu_.Unlock();
  const long waits = NumWaits();
  const Brought brought = can_lead ? BringToPageCache(fd_, begin, end) : Brought::kCannot;
  if (brought == Brought::kCannot) {
    ::posix_fadvise(fd_, static_cast<off_t>(begin), static_cast<off_t>(end - begin + kAskedBytes),
                    POSIX_FADV_WILLNEED);  // a hint
  }
  const bool cached = brought == Brought::kAll && NumWaits() == waits;
  mu_.Lock();
  leading_ = false;
  cached_ = cached;
  can_lead_ = brought != Brought::kCannot;
  front_ = end;
  moved_.NotifyAll();
}

}  // namespace millrace::readers
