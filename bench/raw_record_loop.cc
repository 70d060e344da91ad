// bench_raw_record_loop FILE SECONDS [mmap]: the least that reading a TFRecord file with both CRCs
// costs. One thread fills one buffer of the size of the reader's chunks (1 MiB) by pread, steps
// over the frames, sums them with ISA-L, and moves the frame that is cut to the front; no record is
// handed to anyone. With `mmap` it maps the file instead and sums the frames where they lie. It
// reads the file again until SECONDS have passed. Prints JSON. The limit of the reader rows.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "bench/tfrecord_frame.h"

namespace {

using millrace::bench::kFooterBytes;
using millrace::bench::kHeaderBytes;
using millrace::bench::MaskedCrc;

constexpr size_t kChunkBytes = 1 << 20;  // TfRecordReaderOptions::chunk_bytes
constexpr uint64_t kMaxRecordBytes = 1 << 30;

template <typename T>
T Load(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Checks the whole frames in `bytes` and returns how many bytes they take; -1 on damage. `need` is
// set to the size of the first frame that is not whole.
int64_t WalkFrames(const unsigned char* bytes, size_t size, uint64_t& num_records, size_t& need) {
  size_t at = 0;
  need = kHeaderBytes;
  while (size - at >= kHeaderBytes) {
    const auto length = Load<uint64_t>(bytes + at);
    if (MaskedCrc(bytes + at, 8) != Load<uint32_t>(bytes + at + 8)) return -1;
    if (length > kMaxRecordBytes) return -1;
    need = kHeaderBytes + length + kFooterBytes;
    if (size - at < need) break;
    const unsigned char* payload = bytes + at + kHeaderBytes;
    if (MaskedCrc(payload, length) != Load<uint32_t>(payload + length)) return -1;
    at += need;
    ++num_records;
    need = kHeaderBytes;
  }
  return static_cast<int64_t>(at);
}

struct Totals {
  uint64_t num_records = 0;
  uint64_t num_bytes = 0;
};

// Reads the file once and adds to `totals`. Returns what went wrong, nullptr for nothing.
const char* ReadOnce(int file, std::vector<unsigned char>& buffer, Totals& totals) {
  uint64_t offset = 0;
  size_t held = 0;
  for (;;) {
    const ssize_t n =
        pread(file, buffer.data() + held, buffer.size() - held, static_cast<off_t>(offset + held));
    if (n < 0) return "cannot read";
    if (n == 0) break;
    held += static_cast<size_t>(n);
    size_t need = 0;
    const int64_t used = WalkFrames(buffer.data(), held, totals.num_records, need);
    if (used < 0) return "damaged";
    held -= static_cast<size_t>(used);
    offset += static_cast<uint64_t>(used);
    std::memmove(buffer.data(), buffer.data() + used, held);
    if (buffer.size() < need) buffer.resize(need);
  }
  totals.num_bytes += offset;
  return held == 0 ? nullptr : "ends inside a record";
}

// The same of a mapping, made anew; its pages are touched as they come.
const char* ReadMapped(int file, Totals& totals) {
  struct stat info = {};
  if (fstat(file, &info) != 0) return "cannot stat";
  const auto size = static_cast<size_t>(info.st_size);
  void* const bytes = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) return "cannot map";
  size_t need = 0;
  const int64_t used =
      WalkFrames(static_cast<const unsigned char*>(bytes), size, totals.num_records, need);
  munmap(bytes, size);
  if (used < 0) return "damaged";
  totals.num_bytes += size;
  return static_cast<size_t>(used) == size ? nullptr : "ends inside a record";
}

int Fail(const char* path, const char* what) {
  std::fprintf(stderr, "%s: %s\n", path, what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool mapped = argc == 4 && std::strcmp(argv[3], "mmap") == 0;
  if (argc != 3 && !mapped) return Fail("usage", "bench_raw_record_loop FILE SECONDS [mmap]");
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (file < 0) return Fail(argv[1], "cannot open");
  const double least_seconds = std::atof(argv[2]);
  std::vector<unsigned char> buffer(kChunkBytes);
  Totals totals;
  std::chrono::duration<double> seconds{};
  const auto start = std::chrono::steady_clock::now();
  do {
    const char* const wrong = mapped ? ReadMapped(file, totals) : ReadOnce(file, buffer, totals);
    if (wrong != nullptr) return Fail(argv[1], wrong);
    seconds = std::chrono::steady_clock::now() - start;
  } while (seconds.count() < least_seconds);
  close(file);
  std::printf(
      "{\"records\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
      "\"records_per_second\": %.1f, \"bytes_per_second\": %.1f}\n",
      static_cast<unsigned long long>(totals.num_records), seconds.count(),
      static_cast<double>(std::clock()) / CLOCKS_PER_SEC,
      static_cast<double>(totals.num_records) / seconds.count(),
      static_cast<double>(totals.num_bytes) / seconds.count());
  return 0;
}
