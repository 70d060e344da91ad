// bench_read_records FILE SECONDS [mmap]: reads a TFRecord file through
// readers::OpenTfRecordReader, both CRCs checked, on one thread, again and again until SECONDS have
// passed; with `mmap` it is mapped. Prints the JSON that bench_raw_record_loop prints.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "readers/record_reader.h"

namespace {

struct Totals {
  uint64_t num_records = 0;
  uint64_t num_bytes = 0;
};

// Reads the file once and adds to `totals`.
absl::Status ReadOnce(const std::string& path,
                      const millrace::readers::TfRecordReaderOptions& options, Totals& totals) {
  auto reader = millrace::readers::OpenTfRecordReader(path, options);
  if (!reader.ok()) return reader.status();
  for (;;) {
    const auto record = (*reader)->Next();
    if (!record.ok()) return record.status();
    if (!record->has_value()) return absl::OkStatus();
    ++totals.num_records;
    totals.num_bytes += (*record)->payload.size() + 16;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool mapped = argc == 4 && std::strcmp(argv[3], "mmap") == 0;
  if (argc != 3 && !mapped) {
    std::fprintf(stderr, "usage: bench_read_records FILE SECONDS [mmap]\n");
    return 2;
  }
  millrace::readers::TfRecordReaderOptions options;
  if (mapped) options.access.io = millrace::readers::FileIo::kMmap;
  const double least_seconds = std::atof(argv[2]);
  Totals totals;
  std::chrono::duration<double> seconds{};
  const auto start = std::chrono::steady_clock::now();
  do {
    if (const absl::Status status = ReadOnce(argv[1], options, totals); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
    seconds = std::chrono::steady_clock::now() - start;
  } while (seconds.count() < least_seconds);
  std::printf(
      "{\"records\": %llu, \"seconds\": %.6f, \"records_per_second\": %.1f, "
      "\"bytes_per_second\": %.1f}\n",
      static_cast<unsigned long long>(totals.num_records), seconds.count(),
      static_cast<double>(totals.num_records) / seconds.count(),
      static_cast<double>(totals.num_bytes) / seconds.count());
  return 0;
}
