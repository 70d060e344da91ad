// bench_train_rate PLAN DATA THREADS SECONDS: images per second of a pipeline once it is warm. The
// plan is opened, with its variable DATA, and read for a second and eight batches: memory has its
// pages and the ring its depth then, and nothing waits that was made ahead. The clock runs from the
// delivery of one batch to that of another. Prints one JSON object.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/context.h"
#include "base/status.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

namespace millrace::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWarmSeconds = 1;
constexpr int64_t kWarmBatches = 8;

struct Taken {
  int64_t batches = 0;
  int64_t images = 0;
  double seconds = 0;
};

// Takes batches for so long, and at least so many.
absl::StatusOr<Taken> Take(pipeline::Pipeline& stream, double seconds, int64_t batches) {
  Taken taken;
  const auto start = Clock::now();
  while (taken.seconds < seconds || taken.batches < batches) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream.Next());
    if (!batch.has_value()) return absl::FailedPreconditionError("the plan has to repeat for ever");
    ++taken.batches;
    taken.images += batch->num_valid_rows();
    taken.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return taken;
}

absl::Status Measure(const std::string& file, const std::string& data, int threads,
                     double seconds) {
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, pipeline::Plan::FromFile(file, {{"DATA", data}}));
  ContextOptions options;
  options.threads = threads;
  MILLRACE_ASSIGN_OR_RETURN(const auto context, pipeline::MakeContext(std::move(options)));
  MILLRACE_ASSIGN_OR_RETURN(const auto stream, pipeline::Pipeline::Open(plan, context, {}));
  MILLRACE_RETURN_IF_ERROR(Take(*stream, kWarmSeconds, kWarmBatches).status());
  MILLRACE_ASSIGN_OR_RETURN(const Taken taken, Take(*stream, seconds, 1));
  absl::PrintF(
      "{\"images\": %d, \"threads\": %d, \"seconds\": %.3f, \"images_per_second\": %.1f}\n",
      taken.images, threads, taken.seconds, static_cast<double>(taken.images) / taken.seconds);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_train_rate PLAN DATA THREADS SECONDS\n");
    return 2;
  }
  const absl::Status status = Measure(argv[1], argv[2], std::atoi(argv[3]), std::atof(argv[4]));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
