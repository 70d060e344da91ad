#include "readers/convert/work.h"

#include <chrono>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/caught.h"
#include "base/mutex.h"
#include "base/status.h"

// Threads of its own encode, and the calling one does nothing but write: compressing a shard is
// work for one thread, and it must never wait behind the encoding of another chunk. With oneTBB's
// parallel_pipeline, whose threads take turns at the last filter, converting 512,000 records took
// 1.3 times as long (to gzip, two threads, two busy cores: 2.2 s at best instead of 1.7 s).

namespace millrace::readers::internal {
namespace {

absl::StatusOr<EncodedChunk> FetchAndEncode(const ChunkWork& work, uint64_t chunk) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<FetchedRecords> records, work.fetch(chunk));
  return work.encode(chunk, *records);
}

absl::Status RunAlone(const ChunkWork& work) {
  for (uint64_t chunk = 0; chunk < work.num_chunks; ++chunk) {
    MILLRACE_ASSIGN_OR_RETURN(EncodedChunk encoded, FetchAndEncode(work, chunk));
    MILLRACE_RETURN_IF_ERROR(work.write(std::move(encoded)));
  }
  return absl::OkStatus();
}

// Starts `count` threads that run `body`, or as many as the system has to give: fewer threads do
// the same work more slowly.
template <typename Body>
std::vector<std::jthread> StartThreads(size_t count, Body body) {
  std::vector<std::jthread> threads;
  try {
    threads.reserve(count);
    while (threads.size() < count) threads.emplace_back(body);
  } catch (const std::system_error&) {  // EAGAIN, of std::jthread only
  } catch (const std::bad_alloc&) {
  }
  return threads;
}

// A ring of chunks between the threads that encode and the one that writes.
class Ring {
 public:
  Ring(const ChunkWork& work, size_t size) : work_(work), slots_(size) {}

  // Takes chunks until there is none left. For threads that encode.
  void Encode() {
    while (auto fetched = work_.fetch_in_order ? ClaimInOrder() : Claim()) {
      absl::StatusOr<EncodedChunk> encoded = EncodeFetched(*fetched);
      MutexLock lock(mu_);
      slots_[fetched->chunk % slots_.size()] = std::move(encoded);
      changed_.NotifyAll();
    }
  }

  absl::Status WriteAll() {
    for (uint64_t chunk = 0; chunk < work_.num_chunks; ++chunk) {
      absl::StatusOr<EncodedChunk> encoded = Take(chunk);
      if (!encoded.ok()) return encoded.status();
      MILLRACE_RETURN_IF_ERROR(work_.write(*std::move(encoded)));
    }
    return absl::OkStatus();
  }

  // No chunk is claimed afterwards.
  void Stop() {
    MutexLock lock(mu_);
    stopped_ = true;
    changed_.NotifyAll();
  }

 private:
  struct Fetched {
    uint64_t chunk = 0;
    absl::StatusOr<std::unique_ptr<FetchedRecords>> records;
  };

  absl::StatusOr<EncodedChunk> EncodeFetched(Fetched& fetched) {
    MILLRACE_RETURN_IF_ERROR(fetched.records.status());
    return Caught([&] { return work_.encode(fetched.chunk, **fetched.records); });
  }

  std::optional<Fetched> ClaimInOrder() {
    MutexLock lock(fetch_mu_);
    return Claim();
  }

  std::optional<Fetched> Claim() {
    const std::optional<uint64_t> chunk = NextChunk();
    if (!chunk.has_value()) return std::nullopt;
    return Fetched{*chunk, Caught([&] { return work_.fetch(*chunk); })};
  }

  std::optional<uint64_t> NextChunk() {
    MutexLock lock(mu_);
    while (!stopped_ && claimed_ < work_.num_chunks && claimed_ >= taken_ + slots_.size()) {
      changed_.Wait(mu_);
    }
    if (stopped_ || claimed_ == work_.num_chunks) return std::nullopt;
    return claimed_++;
  }

  absl::StatusOr<EncodedChunk> Take(uint64_t chunk) {
    while (!Await(chunk)) MILLRACE_RETURN_IF_ERROR(work_.wait());
    MutexLock lock(mu_);
    std::optional<absl::StatusOr<EncodedChunk>>& slot = slots_[chunk % slots_.size()];
    absl::StatusOr<EncodedChunk> encoded = *std::move(slot);
    slot.reset();
    ++taken_;
    changed_.NotifyAll();
    return encoded;
  }

  // Waits a while for the chunk that is written next. True: it is there.
  bool Await(uint64_t chunk) {
    MutexLock lock(mu_);
    const std::optional<absl::StatusOr<EncodedChunk>>& slot = slots_[chunk % slots_.size()];
    if (!slot.has_value()) changed_.WaitFor(mu_, kWait);
    return slot.has_value();
  }

  static constexpr auto kWait = std::chrono::milliseconds(100);

  const ChunkWork& work_;
  Mutex fetch_mu_;  // taken before mu_; orders claims and fetches
  Mutex mu_;
  CondVar changed_;
  std::vector<std::optional<absl::StatusOr<EncodedChunk>>> slots_ MILLRACE_GUARDED_BY(mu_);
  uint64_t claimed_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t taken_ MILLRACE_GUARDED_BY(mu_) = 0;
  bool stopped_ MILLRACE_GUARDED_BY(mu_) = false;
};

}  // namespace

absl::Status RunInOrder(const ChunkWork& work, int threads) {
  const auto run_alone = [&work] { return Caught([&work] { return RunAlone(work); }); };
  if (threads <= 1 || work.num_chunks <= 1) return run_alone();
  Ring ring(work, 2 * static_cast<size_t>(threads));
  const auto started = StartThreads(static_cast<size_t>(threads), [&ring] { ring.Encode(); });
  if (started.empty()) return run_alone();
  absl::Status status = Caught([&] { return ring.WriteAll(); });
  ring.Stop();
  return status;
}

}  // namespace millrace::readers::internal
