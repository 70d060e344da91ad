// bench_read_records FILE: reads a TFRecord file through readers::OpenTfRecordReader, both CRCs
// checked, on one thread. Prints the JSON that bench_raw_record_loop prints.
#include <chrono>
#include <cstdio>
#include <string>

#include "readers/record_reader.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_read_records FILE\n");
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  auto reader = millrace::readers::OpenTfRecordReader(argv[1]);
  if (!reader.ok()) {
    std::fprintf(stderr, "%s\n", reader.status().ToString().c_str());
    return 1;
  }
  uint64_t num_records = 0, num_bytes = 0;
  for (;;) {
    const auto record = (*reader)->Next();
    if (!record.ok()) {
      std::fprintf(stderr, "%s\n", record.status().ToString().c_str());
      return 1;
    }
    if (!record->has_value()) break;
    ++num_records;
    num_bytes += (*record)->payload.size() + 16;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "{\"records\": %llu, \"seconds\": %.6f, \"records_per_second\": %.1f, "
      "\"bytes_per_second\": %.1f}\n",
      static_cast<unsigned long long>(num_records), seconds.count(),
      static_cast<double>(num_records) / seconds.count(),
      static_cast<double>(num_bytes) / seconds.count());
  return 0;
}
