#include "tests/trainer/backend/cuda/simt.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "tests/trainer/backend/cuda/fiber.h"

thread_local constinit millrace::trainer::cuda::simt::Index threadIdx;
thread_local constinit millrace::trainer::cuda::simt::Index blockIdx;
thread_local constinit millrace::trainer::cuda::simt::Index blockDim;
thread_local constinit millrace::trainer::cuda::simt::Index gridDim;

namespace millrace::trainer::cuda::simt {
namespace {

constexpr unsigned kWarpThreads = 32;

enum class State { kRuns, kWaitsForBlock, kWaitsForWarp, kEnded };

// A thread of the block.
struct Thread {
  State state = State::kEnded;
  Place place;         // of the barrier at which it waits
  unsigned mask = 0;   // of the lanes that it waits for
  uint64_t value = 0;  // that it exchanges
};

// True if both wait at one barrier.
bool WaitTogether(const Thread& a, const Thread& b) {
  return a.state == b.state && a.mask == b.mask && a.place.line() == b.place.line() &&
         (a.place.file_name() == b.place.file_name() ||
          std::strcmp(a.place.file_name(), b.place.file_name()) == 0);
}

std::string Describe(const std::vector<Thread>& threads, size_t i) {
  const Thread& thread = threads[i];
  if (thread.state == State::kEnded) return absl::StrCat("thread ", i, " has ended");
  return absl::StrCat("thread ", i, " waits for its ",
                      thread.state == State::kWaitsForBlock ? "block" : "warp", " at ",
                      thread.place.file_name(), ":", thread.place.line());
}

// The fibers of a host thread, which run the threads of one block after another.
class Block {
 public:
  absl::Status Run(const Grid& grid, const std::function<void()>& thread);

  void Wait(State state, unsigned mask, const Place& place);
  Thread& current() { return threads_[threadIdx.x]; }
  // Lane `lane` of the warp of the running thread; null: there is none.
  const Thread* Lane(int lane) const;

 private:
  static void RunThreads();  // the body of the fibers
  void RunUntilAllWait();
  bool AllEnded() const;
  // Lets threads go on whose barrier all have reached. False: there are none.
  bool Release();
  bool ReleaseWarp(size_t begin);
  std::string Stuck() const;

  std::vector<Fiber> fibers_;
  std::vector<Thread> threads_;  // of the block
  const std::function<void()>* thread_ = nullptr;
};

// What a host thread launches.
struct Launcher {
  Block block;
  bool has_barriers = false;  // of the kernel that runs
  bool met_barrier = false;   // true if it has one all the same
  Place place;
};
thread_local Launcher launcher;

void Block::RunThreads() {
  while (true) {
    (*launcher.block.thread_)();
    launcher.block.current().state = State::kEnded;
    Fiber::Pause();
  }
}

void Block::RunUntilAllWait() {
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state != State::kRuns) continue;
    threadIdx.x = static_cast<unsigned>(i);
    fibers_[i].Resume();
  }
}

bool Block::AllEnded() const {
  return std::ranges::all_of(threads_, [](const Thread& t) { return t.state == State::kEnded; });
}

bool Block::ReleaseWarp(size_t begin) {
  const size_t end = std::min(begin + kWarpThreads, threads_.size());
  bool any = false;
  for (size_t i = begin; i < end; ++i) {
    if (threads_[i].state != State::kWaitsForWarp) continue;
    const Thread waiting = threads_[i];
    const auto is_meant = [&](size_t k) { return (waiting.mask >> (k - begin) & 1) != 0; };
    bool all = true;
    for (size_t k = begin; k < end; ++k) {
      if (is_meant(k)) all = all && WaitTogether(threads_[k], waiting);
    }
    if (!all) continue;
    any = true;
    for (size_t k = begin; k < end; ++k) {
      if (is_meant(k)) threads_[k].state = State::kRuns;
    }
  }
  return any;
}

bool Block::Release() {
  bool any = false;
  for (size_t begin = 0; begin < threads_.size(); begin += kWarpThreads) {
    any = ReleaseWarp(begin) || any;
  }
  if (any) return true;
  const bool all = threads_[0].state == State::kWaitsForBlock &&
                   std::ranges::all_of(threads_, [this](const Thread& thread) {
                     return WaitTogether(thread, threads_[0]);
                   });
  if (!all) return false;
  for (Thread& thread : threads_) thread.state = State::kRuns;
  return true;
}

// The first thread that waits, and the first that does not wait with it.
std::string Block::Stuck() const {
  size_t first = 0;
  while (threads_[first].state == State::kEnded) ++first;
  size_t other = 0;
  while (other + 1 < threads_.size() &&
         (other == first || WaitTogether(threads_[other], threads_[first]))) {
    ++other;
  }
  return absl::StrCat(Describe(threads_, first), ", but ", Describe(threads_, other));
}

absl::Status Block::Run(const Grid& grid, const std::function<void()>& thread) {
  thread_ = &thread;
  while (fibers_.size() < grid.threads) fibers_.emplace_back(RunThreads);
  threads_.assign(grid.threads, Thread());
  for (Thread& each : threads_) each.state = State::kRuns;
  while (true) {
    RunUntilAllWait();
    if (AllEnded()) return absl::OkStatus();
    if (Release()) continue;
    fibers_.clear();  // they are in the midst of the kernel
    return absl::InternalError(
        absl::StrCat("kernel ", grid.name, ", block ", blockIdx.x, ": ", Stuck()));
  }
}

void Block::Wait(State state, unsigned mask, const Place& place) {
  const unsigned me = threadIdx.x;
  threads_[me].state = state;
  threads_[me].mask = mask;
  threads_[me].place = place;
  Fiber::Pause();
}

const Thread* Block::Lane(int lane) const {
  const size_t index = threadIdx.x / kWarpThreads * kWarpThreads + static_cast<size_t>(lane);
  return lane < 0 || lane >= static_cast<int>(kWarpThreads) || index >= threads_.size()
             ? nullptr
             : &threads_[index];
}

absl::Status RunPlainly(const Grid& grid, const std::function<void()>& thread) {
  for (blockIdx.x = 0; blockIdx.x < grid.blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < grid.threads; ++threadIdx.x) {
      thread();
      if (!launcher.met_barrier) continue;
      return absl::InternalError(absl::StrCat(
          "kernel ", grid.name, " is launched as one without barriers, but has one at ",
          launcher.place.file_name(), ":", launcher.place.line()));
    }
  }
  return absl::OkStatus();
}

absl::Status RunAsFibers(const Grid& grid, const std::function<void()>& thread) {
  static Mutex shared_memory;
  const MutexLock lock(shared_memory);
  absl::Status status;
  for (blockIdx.x = 0; blockIdx.x < grid.blocks && status.ok(); ++blockIdx.x) {
    status = launcher.block.Run(grid, thread);
  }
  return status;
}

// Notes that a kernel which should have no barrier has one. True: it may not wait.
bool MayNotWait(const Place& place) {
  if (launcher.has_barriers) return false;
  launcher.met_barrier = true;
  launcher.place = place;
  return true;
}

}  // namespace

absl::Status Run(const Grid& grid, const std::function<void()>& thread) {
  launcher.has_barriers = grid.has_barriers;
  launcher.met_barrier = false;
  blockDim.x = grid.threads;
  gridDim.x = grid.blocks;
  return grid.has_barriers ? RunAsFibers(grid, thread) : RunPlainly(grid, thread);
}

void WaitForBlock(const Place& place) {
  if (!MayNotWait(place)) launcher.block.Wait(State::kWaitsForBlock, 0, place);
}

void WaitForWarp(unsigned mask, const Place& place) {
  if (!MayNotWait(place)) launcher.block.Wait(State::kWaitsForWarp, mask, place);
}

// Values stay in place until all lanes have read theirs.
uint64_t Exchange(unsigned mask, uint64_t value, int from, const Place& place) {
  if (MayNotWait(place)) return value;
  launcher.block.current().value = value;
  launcher.block.Wait(State::kWaitsForWarp, mask, place);
  const Thread* const lane = launcher.block.Lane(from);
  const uint64_t taken = lane == nullptr ? value : lane->value;
  launcher.block.Wait(State::kWaitsForWarp, mask, place);
  return taken;
}

}  // namespace millrace::trainer::cuda::simt
