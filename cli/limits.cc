#include "cli/limits.h"

#include <execinfo.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "base/host.h"

namespace millrace::cli {
namespace {

// Bytes that the kernel counts as this process' data now.
uint64_t DataBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t size = 0, resident = 0, shared = 0, text = 0, libraries = 0, data = 0;
  in >> size >> resident >> shared >> text >> libraries >> data;
  return data * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Of many threads most of a stack is never touched, and counts all the same.
void ShrinkStacks(uint64_t limit) {
  constexpr uint64_t kLeast = 512 << 10, kMost = 8 << 20, kFraction = 512;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, std::clamp(limit / kFraction, kLeast, kMost));
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

}  // namespace

void IgnoreFileSizeSignal() { std::signal(SIGXFSZ, SIG_IGN); }

void LoadUnwinder() {
  void* frame = nullptr;
  backtrace(&frame, 1);
}

void LimitData() {
  const std::optional<uint64_t> memory = ReadMemoryLimit();
  rlimit data{};
  if (!memory.has_value() || ::getrlimit(RLIMIT_DATA, &data) != 0) return;
  // Sanitizers have more data than any limit, and touch a little of it.
  if (*memory >= data.rlim_cur || DataBytes() >= *memory) return;
  data.rlim_cur = *memory;
  if (::setrlimit(RLIMIT_DATA, &data) == 0) ShrinkStacks(*memory);
}

}  // namespace millrace::cli
