#include "readers/file/read_watch.h"

#include <system_error>
#include <utility>
#include <vector>

#include "readers/read_engine.h"

namespace millrace::readers {

ReadWatch::ReadWatch(ReadWatchOptions options) : options_(std::move(options)) {
  if (options_.deadline.count() <= 0 || !options_.report) return;
  try {
    thread_ = std::jthread([this] { Watch(); });
  } catch (const std::system_error&) {  // reads go on unwatched
  }
}

ReadWatch::~ReadWatch() {
  MutexLock lock(mu_);
  stopping_ = true;
  stop_.NotifyAll();
}

ReadWatch::Place ReadWatch::Begin(const ReadRequest& request, Clock::time_point now) {
  MutexLock lock(mu_);
  return reads_.insert(reads_.end(), {&request, now});
}

void ReadWatch::End(Place read, Clock::time_point now) {
  std::list<Read> ended;
  {
    MutexLock lock(mu_);
    ended.splice(ended.end(), reads_, read);
  }
  if (ended.front().overdue) options_.report(Describe(ended.front(), now, /*over=*/true));
}

void ReadWatch::Look(Clock::time_point now) {
  std::vector<OverdueRead> overdue;  // reported without the mutex: a log may block
  {
    MutexLock lock(mu_);
    for (Read& read : reads_) {
      if (read.overdue || now - read.begin < options_.deadline) continue;
      read.overdue = true;
      overdue.push_back(Describe(read, now, /*over=*/false));
    }
  }
  for (const OverdueRead& read : overdue) options_.report(read);
}

OverdueRead ReadWatch::Describe(const Read& read, Clock::time_point now, bool over) const {
  return {read.request->file->path(), read.request->offset, read.request->out.size(),
          std::chrono::duration_cast<std::chrono::milliseconds>(now - read.begin), over};
}

void ReadWatch::Watch() {
  while (true) {
    {
      MutexLock lock(mu_);
      if (!stopping_) stop_.WaitFor(mu_, options_.deadline / 4);
      if (stopping_) return;
    }
    Look(Clock::now());
  }
}

}  // namespace millrace::readers
