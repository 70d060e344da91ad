// bench_feed_rate PLAN DATA BATCH THREADS SECONDS STEP_US: a pipeline that feeds a GPU. Each batch
// goes through DeviceFeed to a stand-in for a training step: a kernel that takes STEP_US
// microseconds. As a trainer does, the host issues a step while the one before it runs. The plan,
// whose variables are DATA and BATCH, repeats for ever. STEP_US of 0 is a consumer that only waits
// for the bytes: what the pipeline and the bus can give.
//
// Prints one JSON object:
//   images_per_second    of the batches used
//   utilisation          the part of the time in which a step ran: 1 if the GPU never waited
//   next_waits_us        the mean time that Next took
//   device_gb_per_s      bytes that arrived in device memory
//   bus_gb_per_s         the limit: copies of such batches from pinned memory, nothing else running
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/context.h"
#include "base/status.h"
#include "bench/spin.h"
#include "pipeline/device_feed.h"
#include "pipeline/plan.h"

namespace millrace::bench {
namespace {

using Clock = std::chrono::steady_clock;
using pipeline::DeviceBatch;
using pipeline::DeviceFeed;

constexpr double kWarmSeconds = 1;
constexpr int64_t kWarmBatches = 8;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

absl::Status ToStatus(cudaError_t error) {
  return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(error));
}

size_t BytesOf(const DeviceBatch& batch) {
  size_t bytes = 0;
  for (size_t i = 0; i < batch.names().size(); ++i) bytes += batch.tensor(i).size_bytes();
  return bytes;
}

struct Taken {
  int64_t batches = 0;
  int64_t images = 0;
  double bytes = 0;
  double wait_seconds = 0;
  double seconds = 0;
};

// Two steps are under way at most: the host waits for the one before the one that it has issued.
class Consumer {
 public:
  explicit Consumer(int step_us) : step_us_(step_us) {}
  absl::Status Start() {
    MILLRACE_RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
    for (cudaEvent_t& event : done_) {
      MILLRACE_RETURN_IF_ERROR(ToStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
    }
    return absl::OkStatus();
  }
  absl::Status Use(const DeviceBatch& batch) {
    MILLRACE_RETURN_IF_ERROR(batch.WaitOn(stream_));
    Spin(batch.tensor(0).data, step_us_, stream_);
    MILLRACE_RETURN_IF_ERROR(ToStatus(cudaGetLastError()));
    MILLRACE_RETURN_IF_ERROR(batch.RecordUse(stream_));
    MILLRACE_RETURN_IF_ERROR(ToStatus(cudaEventRecord(done_[steps_ % 2], stream_)));
    ++steps_;
    return steps_ < 2 ? absl::OkStatus() : ToStatus(cudaEventSynchronize(done_[steps_ % 2]));
  }

 private:
  const int step_us_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_[2] = {};
  int64_t steps_ = 0;
};

absl::StatusOr<Taken> Take(DeviceFeed& feed, Consumer& consumer, double seconds, int64_t batches) {
  Taken taken;
  const auto start = Clock::now();
  while (taken.seconds < seconds || taken.batches < batches) {
    const auto asked = Clock::now();
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, feed.Next());
    if (!batch.has_value()) return absl::FailedPreconditionError("the plan has to repeat for ever");
    taken.wait_seconds += SecondsSince(asked);
    MILLRACE_RETURN_IF_ERROR(consumer.Use(*batch));
    ++taken.batches;
    taken.images += batch->num_valid_rows();
    taken.bytes += static_cast<double>(BytesOf(*batch));
    taken.seconds = SecondsSince(start);
  }
  return taken;
}

// Bytes per second of copies of `bytes` from pinned memory.
absl::StatusOr<double> BusRate(size_t bytes) {
  constexpr int kCopies = 20;
  void *host = nullptr, *device = nullptr;
  MILLRACE_RETURN_IF_ERROR(ToStatus(cudaMallocHost(&host, bytes)));
  MILLRACE_RETURN_IF_ERROR(ToStatus(cudaMalloc(&device, bytes)));
  std::vector<double> seconds;
  for (int i = 0; i < kCopies; ++i) {
    const auto start = Clock::now();
    MILLRACE_RETURN_IF_ERROR(ToStatus(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice)));
    seconds.push_back(SecondsSince(start));
  }
  std::ranges::nth_element(seconds, seconds.begin() + kCopies / 2);
  cudaFree(device);
  cudaFreeHost(host);
  return static_cast<double>(bytes) / seconds[kCopies / 2];
}

absl::Status Measure(const std::string& file, const std::string& data, const std::string& batch,
                     int threads, double seconds, int step_us) {
  MILLRACE_ASSIGN_OR_RETURN(const auto plan,
                            pipeline::Plan::FromFile(file, {{"DATA", data}, {"BATCH", batch}}));
  ContextOptions options;
  options.threads = threads;
  MILLRACE_ASSIGN_OR_RETURN(const auto context, pipeline::MakeContext(std::move(options)));
  pipeline::OpenOptions open;
  open.pinned_for = 0;
  MILLRACE_ASSIGN_OR_RETURN(auto stream, pipeline::Pipeline::Open(plan, context, open));
  MILLRACE_ASSIGN_OR_RETURN(const auto feed, DeviceFeed::Open(std::move(stream)));
  Consumer consumer(step_us);
  MILLRACE_RETURN_IF_ERROR(consumer.Start());
  MILLRACE_RETURN_IF_ERROR(Take(*feed, consumer, kWarmSeconds, kWarmBatches).status());
  MILLRACE_ASSIGN_OR_RETURN(const Taken taken, Take(*feed, consumer, seconds, 1));
  const auto batches = static_cast<double>(taken.batches);
  MILLRACE_ASSIGN_OR_RETURN(const double bus, BusRate(static_cast<size_t>(taken.bytes / batches)));
  absl::PrintF(
      "{\"batch\": %.1f, \"threads\": %d, \"step_us\": %d, \"images_per_second\": %.1f, "
      "\"utilisation\": %.4f, "
      "\"next_waits_us\": %.1f, \"device_gb_per_s\": %.2f, \"bus_gb_per_s\": %.2f}\n",
      static_cast<double>(taken.images) / batches, threads, step_us,
      static_cast<double>(taken.images) / taken.seconds, 1e-6 * step_us * batches / taken.seconds,
      1e6 * taken.wait_seconds / batches, 1e-9 * taken.bytes / taken.seconds, 1e-9 * bus);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: bench_feed_rate PLAN DATA BATCH THREADS SECONDS STEP_US\n");
    return 2;
  }
  const absl::Status status = Measure(argv[1], argv[2], argv[3], std::atoi(argv[4]),
                                      std::atof(argv[5]), std::atoi(argv[6]));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
