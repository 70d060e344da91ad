#ifndef MILLRACE_TESTS_PIPELINE_DEVICE_FAKE_DEVICE_H_
#define MILLRACE_TESTS_PIPELINE_DEVICE_FAKE_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "pipeline/device/device.h"

// A device in host memory that does nothing by itself: work lies in its streams until a test runs
// it, in whatever order of streams the test likes; or, with `automatic`, at once. Thread-safe.

namespace millrace::pipeline {

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(bool automatic = true) : automatic_(automatic) {}

  std::string_view name() const override { return "fake device"; }

  absl::StatusOr<std::byte*> Allocate(size_t bytes, void* stream) override {
    MutexLock lock(mu_);
    if (absl::Status status = CallLocked("Allocate"); !status.ok()) return status;
    if (allocated_bytes_ + bytes > capacity_bytes) return absl::ResourceExhaustedError("full");
    auto memory = std::make_unique<std::byte[]>(bytes + kAlignment);
    const auto begin = reinterpret_cast<uintptr_t>(memory.get());
    std::byte* const address = memory.get() + (kAlignment - begin % kAlignment);
    std::memset(address, 0xA5, bytes);
    allocated_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, allocated_bytes_);
    ++allocations_;
    slabs_[address] = {std::move(memory), bytes};
    if (FindLocked(stream) == nullptr) violations_.push_back("Allocate on a dead stream");
    return address;
  }
  void Free(std::byte* memory, void* stream) override {
    Push(stream, {.run = [this, memory]() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
           const auto slab = slabs_.find(memory);
           if (slab == slabs_.end()) return violations_.push_back("freed twice");
           allocated_bytes_ -= slab->second.bytes;
           slabs_.erase(slab);
         }});
  }

  absl::StatusOr<void*> CreateStream() override {
    MutexLock lock(mu_);
    if (absl::Status status = CallLocked("CreateStream"); !status.ok()) return status;
    streams_.push_back(std::make_unique<Stream>());
    ++live_streams_;
    return static_cast<void*>(streams_.back().get());
  }
  void DestroyStream(void* stream) override {
    MutexLock lock(mu_);
    if (FindLocked(stream) == nullptr) return violations_.push_back("stream destroyed twice");
    static_cast<Stream*>(stream)->alive = false;
    --live_streams_;
  }
  absl::StatusOr<void*> CreateEvent() override {
    MutexLock lock(mu_);
    if (absl::Status status = CallLocked("CreateEvent"); !status.ok()) return status;
    events_.push_back(std::make_unique<Event>());
    ++live_events_;
    return static_cast<void*>(events_.back().get());
  }
  void DestroyEvent(void* event) override {
    MutexLock lock(mu_);
    if (!static_cast<Event*>(event)->alive) violations_.push_back("event destroyed twice");
    static_cast<Event*>(event)->alive = false;
    --live_events_;
  }

  absl::Status Copy(std::byte* to, const void* from, size_t bytes, void* stream) override {
    {
      MutexLock lock(mu_);
      if (absl::Status status = CallLocked("Copy"); !status.ok()) return status;
      ++copies_issued_;
    }
    Push(stream, {.run = [=, this]() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
           if (!ContainsLocked(to, bytes)) return violations_.push_back("copy into freed memory");
           const bool fails = copies_done_++ == fail_copy_;
           if (fails) running_->error = absl::InternalError("injected");
           if (!fails) std::memcpy(to, from, bytes);
         }});
    return absl::OkStatus();
  }
  absl::Status Record(void* event, void* stream) override {
    auto* const target = static_cast<Event*>(event);
    uint64_t version = 0;
    {
      MutexLock lock(mu_);
      if (absl::Status status = CallLocked("Record"); !status.ok()) return status;
      if (!target->alive) violations_.push_back("Record of a dead event");
      version = ++target->recorded;
    }
    // A failed copy is seen by the next event of its stream, and by no later one.
    Push(stream, {.run = [this, target, version]() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
           target->passed = version;
           target->error = std::exchange(running_->error, absl::OkStatus());
         }});
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Query(void* event) override {
    MutexLock lock(mu_);
    if (absl::Status status = CallLocked("Query"); !status.ok()) return status;
    const auto* const target = static_cast<Event*>(event);
    if (!target->alive) violations_.push_back("Query of a dead event");
    if (target->passed < target->recorded) {
      if (progress_on_query) StepLocked(*streams_[num_queries_++ % streams_.size()]);
      return false;
    }
    if (!target->error.ok()) return target->error;
    return true;
  }
  absl::Status Wait(void* stream, void* event) override {
    auto* const target = static_cast<Event*>(event);
    uint64_t version = 0;
    {
      MutexLock lock(mu_);
      if (absl::Status status = CallLocked("Wait"); !status.ok()) return status;
      if (!target->alive) violations_.push_back("Wait for a dead event");
      version = target->recorded;
    }
    Push(stream, {.blocked = [target, version] { return target->passed < version; }});
    return absl::OkStatus();
  }
  absl::Status Synchronize(void* stream) override {
    MutexLock lock(mu_);
    ++synchronizations_;
    while (!static_cast<Stream*>(stream)->work.empty()) {
      bool moved = false;
      for (const auto& each : streams_) moved = StepLocked(*each) || moved;
      if (!moved) return absl::InternalError("the streams wait for each other");
    }
    return absl::OkStatus();
  }

  // The test's side. A kernel: `body` runs when the device comes to it; it must not call the
  // device. REQUIRES: one thread at a time runs work.
  void Launch(void* stream, std::function<void()> body) { Push(stream, {.run = std::move(body)}); }
  // Runs the next work of a stream; false when there is none or it waits for an event.
  bool Step(void* stream) {
    MutexLock lock(mu_);
    return StepLocked(*static_cast<Stream*>(stream));
  }
  void RunStream(void* stream) {
    while (Step(stream)) {
    }
  }
  void RunAll() {
    MutexLock lock(mu_);
    RunAllLocked();
  }
  // One step of the stream with that number, counted from the oldest.
  bool StepNumber(size_t number) {
    MutexLock lock(mu_);
    return StepLocked(*streams_[number % streams_.size()]);
  }
  // The copy that runs as number `copy`, from 0, fails.
  void FailCopy(int64_t copy) {
    MutexLock lock(mu_);
    fail_copy_ = copy;
  }
  // The call of that name fails when it is made for the (skip + 1)-th time from now on.
  void FailCall(const std::string& call, int64_t skip, absl::Status status) {
    MutexLock lock(mu_);
    failures_[call] = {skip, std::move(status)};
  }

  int64_t copies_issued() const { return Get(copies_issued_); }
  int64_t copies_done() const { return Get(copies_done_); }
  int64_t allocations() const { return Get(allocations_); }
  int64_t synchronizations() const { return Get(synchronizations_); }
  size_t allocated_bytes() const { return Get(allocated_bytes_); }
  size_t peak_bytes() const { return Get(peak_bytes_); }
  int live_events() const { return Get(live_events_); }
  int live_streams() const { return Get(live_streams_); }
  std::vector<std::string> violations() const { return Get(violations_); }

  // Set before use.
  size_t capacity_bytes = size_t{1} << 40;
  bool progress_on_query = false;  // one step for every query that says "not yet"

 private:
  static constexpr size_t kAlignment = 256;
  struct Work {
    std::function<void()> run = nullptr;
    std::function<bool()> blocked = nullptr;
  };
  struct Stream {
    bool alive = true;
    absl::Status error;
    std::deque<Work> work;
  };
  struct Event {
    bool alive = true;
    uint64_t recorded = 0, passed = 0;
    absl::Status error;
  };
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };
  struct Failure {
    int64_t skip = 0;
    absl::Status status;
  };

  template <typename T>
  T Get(const T& value) const {
    MutexLock lock(mu_);
    return value;
  }
  absl::Status CallLocked(const std::string& call) MILLRACE_REQUIRES(mu_) {
    const auto failure = failures_.find(call);
    if (failure == failures_.end() || failure->second.skip-- > 0) return absl::OkStatus();
    const absl::Status status = failure->second.status;
    failures_.erase(failure);
    return status;
  }
  bool ContainsLocked(const std::byte* begin, size_t bytes) const {
    auto slab = slabs_.upper_bound(const_cast<std::byte*>(begin));
    if (slab == slabs_.begin()) return false;
    --slab;
    return begin + bytes <= slab->first + slab->second.bytes;
  }
  Stream* FindLocked(void* stream) MILLRACE_REQUIRES(mu_) {
    for (const auto& each : streams_) {
      if (each.get() == stream && each->alive) return each.get();
    }
    return nullptr;
  }
  void Push(void* stream, Work work) {
    MutexLock lock(mu_);
    Stream* const target = FindLocked(stream);
    if (target == nullptr) return violations_.push_back("work on a dead stream");
    target->work.push_back(std::move(work));
    if (automatic_) RunAllLocked();
  }
  bool StepLocked(Stream& stream) MILLRACE_REQUIRES(mu_) {
    if (stream.work.empty()) return false;
    if (stream.work.front().blocked && stream.work.front().blocked()) return false;
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    running_ = &stream;
    if (work.run) work.run();
    return true;
  }
  void RunAllLocked() MILLRACE_REQUIRES(mu_) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& stream : streams_) moved = StepLocked(*stream) || moved;
    }
  }

  const bool automatic_;
  mutable Mutex mu_;
  std::vector<std::unique_ptr<Stream>> streams_ MILLRACE_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Event>> events_ MILLRACE_GUARDED_BY(mu_);
  std::map<std::byte*, Slab> slabs_;     // guarded by mu_; its users run inside work
  Stream* running_ = nullptr;            // likewise
  std::vector<std::string> violations_;  // likewise
  std::map<std::string, Failure> failures_ MILLRACE_GUARDED_BY(mu_);
  size_t num_queries_ MILLRACE_GUARDED_BY(mu_) = 0;
  int64_t fail_copy_ = -1;
  int64_t copies_issued_ = 0, copies_done_ = 0, allocations_ = 0, synchronizations_ = 0;
  size_t allocated_bytes_ = 0, peak_bytes_ = 0;
  int live_events_ = 0, live_streams_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_DEVICE_FAKE_DEVICE_H_
