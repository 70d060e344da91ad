// bench_cold_read FILE RECORD_BYTES THREADS BLOCK_BYTES: how fast a pipeline delivers the records
// of a file that is not in the page cache, in batches of 64; in file order, or with BLOCK_BYTES
// above 0 behind global_shuffle { block_bytes }. The index is made before. Prints one JSON object.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/pipeline.h"

namespace millrace::bench {
namespace {

std::string PlanText(const std::string& file, const std::string& record_bytes,
                     const std::string& block_bytes) {
  std::string text = absl::StrCat("seed: 1 stage { tfrecord { files: \"", file, "\" } }\n");
  if (block_bytes != "0") {
    absl::StrAppend(&text, "stage { global_shuffle { block_bytes: ", block_bytes, " } }\n");
  }
  return absl::StrCat(text,
                      "stage { decode_raw { field: \"record\" dtype: UINT8 shape: ", record_bytes,
                      " } }\nstage { batch { size: 64 } }\n");
}

// What other processes have mapped or not written back stays.
absl::Status DropFromCache(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open", file);
  ::fsync(fd);
  const int error = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "posix_fadvise", file);
}

absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> Open(const std::string& text, int threads) {
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::Plan plan, pipeline::Plan::FromText(text, "plan"));
  ContextOptions options;
  options.threads = threads;
  MILLRACE_ASSIGN_OR_RETURN(const auto context, pipeline::MakeContext(std::move(options)));
  return pipeline::Pipeline::Open(plan, context, {});
}

absl::Status Measure(const std::string& file, const std::string& text, int threads,
                     double record_bytes) {
  MILLRACE_RETURN_IF_ERROR(Open(text, threads).status());  // makes the index
  MILLRACE_RETURN_IF_ERROR(DropFromCache(file));
  const auto start = std::chrono::steady_clock::now();
  MILLRACE_ASSIGN_OR_RETURN(const auto pipeline, Open(text, threads));
  double rows = 0;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, pipeline->Next());
    if (!batch.has_value()) break;
    rows += static_cast<double>(batch->num_valid_rows());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("{\"bytes_per_second\": %.0f, \"seconds\": %.3f}\n",
              rows * record_bytes / seconds.count(), seconds.count());
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_cold_read FILE RECORD_BYTES THREADS BLOCK_BYTES\n");
    return 2;
  }
  const std::string text = millrace::bench::PlanText(argv[1], argv[2], argv[4]);
  const absl::Status status =
      millrace::bench::Measure(argv[1], text, std::atoi(argv[3]), std::atof(argv[2]));
  if (status.ok()) return 0;
  std::fprintf(stderr, "bench_cold_read: %s\n", status.ToString().c_str());
  return 1;
}
