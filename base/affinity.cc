#include "base/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// A number of the processor's place in the host; 0 where the system does not tell.
int Topology(int processor, const char* name) {
  int value = 0;
  std::ifstream(absl::StrCat("/sys/devices/system/cpu/cpu", processor, "/topology/", name)) >>
      value;
  return value;
}

}  // namespace

std::vector<int> UsableProcessors() {
  std::vector<int> usable;
  // A mask larger than cpu_set_t's 1,024 processors needs a larger buffer: grow until it fits.
  for (int processors = 1024; usable.empty() && processors <= 1 << 20; processors *= 4) {
    cpu_set_t* const set = CPU_ALLOC(processors);
    const size_t size = CPU_ALLOC_SIZE(processors);
    const bool read = sched_getaffinity(getpid(), size, set) == 0;
    for (int i = 0; read && i < processors; ++i) {
      if (CPU_ISSET_S(i, size, set)) usable.push_back(i);
    }
    CPU_FREE(set);
  }
  std::vector<std::tuple<int, int, int>> places;
  for (const int i : usable) {
    places.emplace_back(Topology(i, "physical_package_id"), Topology(i, "core_id"), i);
  }
  std::ranges::sort(places);
  for (size_t i = 0; i < places.size(); ++i) usable[i] = std::get<2>(places[i]);
  return usable;
}

bool BindThread(std::span<const int> processors) {
  if (processors.empty()) return false;
  const int last = *std::ranges::max_element(processors);
  cpu_set_t* const set = CPU_ALLOC(last + 1);
  const size_t size = CPU_ALLOC_SIZE(last + 1);
  CPU_ZERO_S(size, set);
  for (const int processor : processors) CPU_SET_S(processor, size, set);
  const bool bound = sched_setaffinity(0, size, set) == 0;
  CPU_FREE(set);
  return bound;
}

}  // namespace millrace
