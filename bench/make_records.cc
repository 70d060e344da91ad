// bench_make_records FILE RECORD_BYTES TOTAL_BYTES: a TFRecord file of equal, noisy records.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "bench/tfrecord_frame.h"

int main(int argc, char** argv) {
  using millrace::bench::MaskedCrc;
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s FILE RECORD_BYTES TOTAL_BYTES\n", argv[0]);
    return 2;
  }
  const uint64_t size = std::strtoull(argv[2], nullptr, 10);
  const uint64_t total = std::strtoull(argv[3], nullptr, 10);
  std::FILE* file = std::fopen(argv[1], "wb");
  if (file == nullptr || size == 0) {
    std::fprintf(stderr, "%s: cannot write records of %s bytes\n", argv[1], argv[2]);
    return 1;
  }
  std::mt19937_64 random(1);
  std::vector<unsigned char> frame(size + 16);
  std::memcpy(frame.data(), &size, 8);
  const uint32_t length_crc = MaskedCrc(frame.data(), 8);
  std::memcpy(frame.data() + 8, &length_crc, 4);
  for (uint64_t written = 0; written < total; written += frame.size()) {
    for (uint64_t i = 0; i < size; ++i) frame[12 + i] = static_cast<unsigned char>(random());
    const uint32_t crc = MaskedCrc(frame.data() + 12, size);
    std::memcpy(frame.data() + 12 + size, &crc, 4);
    if (std::fwrite(frame.data(), 1, frame.size(), file) != frame.size()) {
      std::perror(argv[1]);
      return 1;
    }
  }
  if (std::fclose(file) != 0) {
    std::perror(argv[1]);
    return 1;
  }
  return 0;
}
