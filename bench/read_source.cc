// bench_read_source FILE SECONDS THREADS: reads a shard through readers::RecordSource, in order and
// with both CRCs checked, on THREADS threads that take runs of 1,024 records in turn, again and
// again until SECONDS have passed. Prints the JSON that bench_raw_record_loop prints. The index is
// there before the clock starts; "open_seconds" is what making or reading it took.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "readers/record_source.h"

namespace {

using Clock = std::chrono::steady_clock;
using millrace::SampleId;
using millrace::readers::RecordRef;
using millrace::readers::RecordSource;

constexpr uint64_t kRunRecords = 1024;

double Seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What one thread reads with.
struct Reader {
  std::vector<SampleId> ids = std::vector<SampleId>(kRunRecords);
  std::vector<RecordRef> refs = std::vector<RecordRef>(kRunRecords);
  std::vector<size_t> starts = std::vector<size_t>(kRunRecords + 1);
  std::vector<std::string_view> payloads = std::vector<std::string_view>(kRunRecords);
  std::vector<std::byte> framed;
};

// Reads records [begin, end); returns the bytes of their frames, 0 when that fails.
uint64_t ReadRun(const RecordSource& source, uint64_t begin, uint64_t end, Reader& reader) {
  const size_t count = end - begin;
  for (size_t i = 0; i < count; ++i) reader.ids[i].record = begin + i;
  const auto refs = std::span(reader.refs).first(count);
  const auto starts = std::span(reader.starts).first(count + 1);
  source.LocateAll(std::span(reader.ids).first(count), refs, starts);
  if (reader.framed.size() < starts.back()) reader.framed.resize(starts.back());
  const std::span<std::byte> framed = std::span(reader.framed).first(starts.back());
  const auto& file = *source.file(0);
  const bool read = file.TryReadAt(refs[0].offset, framed) ||
                    millrace::readers::ReadFully(file, refs[0].offset, framed).ok();
  const bool good =
      read && source.UnframeAll(refs, framed.data(), starts, reader.payloads) == count;
  return good ? framed.size() : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_read_source FILE SECONDS THREADS\n");
    return 2;
  }
  const Clock::time_point opening = Clock::now();
  const auto source = RecordSource::Open({argv[1]}, {});
  if (!source.ok()) {
    std::fprintf(stderr, "%s\n", source.status().ToString().c_str());
    return 1;
  }
  const double open_seconds = Seconds(opening);
  const uint64_t num_records = (*source)->num_records();
  const uint64_t num_runs = (num_records + kRunRecords - 1) / kRunRecords;
  const double least_seconds = std::atof(argv[2]);
  std::atomic<uint64_t> next_run = 0, records = 0, bytes = 0;
  std::atomic<bool> failed = false;
  const std::clock_t cpu = std::clock();
  const Clock::time_point start = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (int i = std::atoi(argv[3]); i > 0; --i) {
      threads.emplace_back([&] {
        Reader reader;
        while (!failed && Seconds(start) < least_seconds) {
          const uint64_t begin = next_run++ % num_runs * kRunRecords;
          const uint64_t end = std::min(begin + kRunRecords, num_records);
          const uint64_t got = ReadRun(**source, begin, end, reader);
          if (got == 0) failed = true;
          records += end - begin;
          bytes += got;
        }
      });
    }
  }
  const double seconds = Seconds(start);
  if (failed) {
    std::fprintf(stderr, "%s: cannot be read\n", argv[1]);
    return 1;
  }
  std::printf(
      "{\"records\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"open_seconds\": %.6f, "
      "\"records_per_second\": %.1f, \"bytes_per_second\": %.1f}\n",
      static_cast<unsigned long long>(records), seconds,
      static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC, open_seconds,
      static_cast<double>(records) / seconds, static_cast<double>(bytes) / seconds);
  return 0;
}
