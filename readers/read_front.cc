#include <fcntl.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <cerrno>

#include "readers/read_front_internal.h"
#include "readers/unique_fd.h"

namespace millrace::readers {
namespace {

// Runs of one file that are read side by side lie closer together: an executor's ring is as wide.
constexpr uint64_t kNearBytes = uint64_t{32} << 20;
// What reads wanted is forgotten by halves over such stretches.
constexpr uint64_t kMemoryBytes = uint64_t{64} << 20;
// What was announced is brought in such steps: whoever waits for the first of one waits for no more.
constexpr uint64_t kStepBytes = uint64_t{2} << 20;

// Like reading in order, without the copy. False: neither the system nor the file system can.
bool BringToPageCache(int fd, uint64_t begin, uint64_t end) {
  static const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  off_t at = static_cast<off_t>(begin);
  while (at < static_cast<off_t>(end)) {
    const ssize_t sent =
        ::sendfile(nowhere.get(), fd, &at, static_cast<size_t>(end) - static_cast<size_t>(at));
    if (sent == 0) return true;  // the file ends; its reader says so
    if (sent < 0 && errno != EINTR) return false;
  }
  return true;
}

}  // namespace

bool ReadFront::Announce(uint64_t offset, uint64_t end) {
  const MutexLock lock(mu_);
  if (!NearLocked(offset)) {
    if (leading_) return true;
    begin_ = top_ = front_ = offset;
    wanted_ = 0;
    num_reads_ = 0;
  }
  CountLocked(offset, end);
  return !InOrderLocked() || end <= front_;
}

void ReadFront::Found(uint64_t offset, uint64_t end) {
  const MutexLock lock(mu_);
  if (offset <= front_ && !leading_) front_ = std::max(front_, end);
}

void ReadFront::Reach(uint64_t offset, uint64_t end) {
  const MutexLock lock(mu_);
  while (InOrderLocked() && NearLocked(offset) && front_ < end) {
    if (leading_) {
      moved_.Wait(mu_);
    } else {
      LeadLocked(std::min(std::max(end, top_), front_ + kStepBytes));
    }
  }
}

void ReadFront::CountLocked(uint64_t offset, uint64_t end) {
  begin_ = std::min(begin_, offset);
  top_ = std::max(top_, end);
  wanted_ += end - offset;
  num_reads_ = std::min(num_reads_ + 1, kInOrder);
  if (top_ - begin_ < kMemoryBytes) return;
  begin_ += (top_ - begin_) / 2;
  wanted_ /= 2;
}

bool ReadFront::NearLocked(uint64_t offset) const {
  return offset <= front_ + kNearBytes && front_ <= offset + kNearBytes;
}

bool ReadFront::InOrderLocked() const {
  return !broken_ && num_reads_ == kInOrder && wanted_ >= (top_ - begin_) / 2;
}

void ReadFront::LeadLocked(uint64_t end) {
  const uint64_t begin = front_;
  leading_ = true;
  mu_.Unlock();
  const bool brought = BringToPageCache(fd_, begin, end);
  mu_.Lock();
  leading_ = false;
  broken_ = broken_ || !brought;
  front_ = end;
  moved_.NotifyAll();
}

}  // namespace millrace::readers
