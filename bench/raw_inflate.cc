// bench_raw_inflate FILE SECONDS: the least that inflating a gzip file costs. One thread reads it
// by pread, 256 KiB at a time, and has ISA-L inflate it into one buffer of that size and check the
// sums of the members; nobody looks at the bytes. It does so again until SECONDS have passed.
// Prints JSON. The limit of the gzip row.
#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

namespace {

constexpr size_t kBufferBytes = 256 << 10;

// Inflates the file once and adds to `num_bytes`. Returns what went wrong, nullptr for nothing.
const char* InflateOnce(int file, inflate_state& state, uint64_t& num_bytes) {
  static std::vector<uint8_t> in(kBufferBytes), out(kBufferBytes);
  off_t offset = 0;
  isal_inflate_init(&state);
  state.crc_flag = ISAL_GZIP;
  for (;;) {
    if (state.avail_in == 0) {
      const ssize_t got = pread(file, in.data(), in.size(), offset);
      if (got < 0) return "cannot read";
      if (got == 0) return state.block_state == ISAL_BLOCK_FINISH ? nullptr : "is cut off";
      offset += got;
      state.next_in = in.data();
      state.avail_in = static_cast<uint32_t>(got);
    }
    if (state.block_state == ISAL_BLOCK_FINISH) {  // and more follows
      isal_inflate_reset(&state);
      state.crc_flag = ISAL_GZIP;
    }
    state.next_out = out.data();
    state.avail_out = static_cast<uint32_t>(out.size());
    if (isal_inflate(&state) != ISAL_DECOMP_OK) return "is damaged";
    num_bytes += out.size() - state.avail_out;
  }
}

int Fail(const char* path, const char* what) {
  std::fprintf(stderr, "%s: %s\n", path, what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return Fail("usage", "bench_raw_inflate FILE SECONDS");
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (file < 0) return Fail(argv[1], "cannot open");
  const double least_seconds = std::atof(argv[2]);
  const auto state = std::make_unique<inflate_state>();
  uint64_t num_bytes = 0;
  std::chrono::duration<double> seconds{};
  const auto start = std::chrono::steady_clock::now();
  do {
    if (const char* what = InflateOnce(file, *state, num_bytes)) return Fail(argv[1], what);
    seconds = std::chrono::steady_clock::now() - start;
  } while (seconds.count() < least_seconds);
  close(file);
  std::printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"bytes_per_second\": %.1f}\n",
              seconds.count(), static_cast<double>(std::clock()) / CLOCKS_PER_SEC,
              static_cast<double>(num_bytes) / seconds.count());
  return 0;
}
