// bench_raw_record_loop FILE: the least that reading a TFRecord file with both CRCs costs. One
// thread preads 1 MiB at a time into one buffer, steps over the frames and sums them with ISA-L; no
// record is handed to anyone. Prints JSON. The limit of the reader rows.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "bench/tfrecord_frame.h"

namespace {

using millrace::bench::kFooterBytes;
using millrace::bench::kHeaderBytes;
using millrace::bench::MaskedCrc;

constexpr size_t kChunkBytes = 1 << 20;
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

int Fail(const char* path, const char* what) {
  std::fprintf(stderr, "%s: %s\n", path, what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return Fail("usage", "bench_raw_record_loop FILE");
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (file < 0) return Fail(argv[1], "cannot open");
  std::vector<unsigned char> buffer(2 * kChunkBytes);
  uint64_t num_records = 0, num_bytes = 0;
  size_t held = 0;
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const ssize_t n =
        pread(file, buffer.data() + held, kChunkBytes, static_cast<off_t>(num_bytes + held));
    if (n < 0) return Fail(argv[1], "cannot read");
    if (n == 0) break;
    held += static_cast<size_t>(n);
    size_t need = 0;
    const int64_t used = WalkFrames(buffer.data(), held, num_records, need);
    if (used < 0) return Fail(argv[1], "damaged");
    held -= static_cast<size_t>(used);
    num_bytes += static_cast<uint64_t>(used);
    std::memmove(buffer.data(), buffer.data() + used, held);
    if (buffer.size() < need + kChunkBytes) buffer.resize(need + kChunkBytes);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  close(file);
  if (held != 0) return Fail(argv[1], "ends inside a record");
  std::printf(
      "{\"records\": %llu, \"seconds\": %.6f, \"records_per_second\": %.1f, "
      "\"bytes_per_second\": %.1f}\n",
      static_cast<unsigned long long>(num_records), seconds.count(),
      static_cast<double>(num_records) / seconds.count(),
      static_cast<double>(num_bytes) / seconds.count());
  return 0;
}
