#include "base/host.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/cgroups.h"

namespace millrace {
namespace {

int AffinityCores(int online) {
  // A mask larger than cpu_set_t's 1,024 processors needs a larger buffer: grow until it fits.
  for (int processors = 1024; processors <= 1 << 20; processors *= 4) {
    cpu_set_t* set = CPU_ALLOC(processors);
    const size_t size = CPU_ALLOC_SIZE(processors);
    const bool read = sched_getaffinity(getpid(), size, set) == 0;
    const int count = read ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (read) return std::max(1, count);
  }
  return online;
}

// "max 100000" or "150000 100000" (cgroup v2's cpu.max): quota / period, 0 for none.
double QuotaV2(const std::string& file) {
  std::ifstream in(file);
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double QuotaV1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"),
      period_file(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return 0;
  return quota / period;
}

double TighterQuota(double a, double b) {
  if (a <= 0) return b;
  return b <= 0 ? a : std::min(a, b);
}

double CgroupQuota(const std::string& root, const std::string& self_cgroup) {
  double quota = 0;
  VisitCgroups(self_cgroup, [&](const std::string& controllers, const std::string& path) {
    if (controllers.empty()) {
      VisitUpwards(root, path, [&](const std::string& folder) {
        quota = TighterQuota(quota, QuotaV2(folder + "/cpu.max"));
      });
    } else if (controllers.find(",cpu,") != std::string::npos) {
      VisitUpwards(root + "/cpu", path, [&](const std::string& folder) {
        quota = TighterQuota(quota, QuotaV1(folder));
      });
    }
  });
  return quota;
}

// Lowers `limit` to the number in `file`, if it has one. Version 2 writes "max" for none, version 1
// a number that no memory reaches.
void Lower(const std::string& file, std::optional<uint64_t>& limit) {
  constexpr uint64_t kNoLimit = uint64_t{1} << 62;
  uint64_t bytes = 0;
  if (!(std::ifstream(file) >> bytes) || bytes >= kNoLimit) return;
  limit = std::min(limit.value_or(bytes), bytes);
}

}  // namespace

std::optional<uint64_t> ReadMemoryLimit() {
  return ReadMemoryLimit("/sys/fs/cgroup", "/proc/self/cgroup");
}

std::optional<uint64_t> ReadMemoryLimit(const std::string& cgroup_root,
                                        const std::string& self_cgroup) {
  std::optional<uint64_t> limit;
  VisitCgroups(self_cgroup, [&](const std::string& controllers, const std::string& path) {
    if (controllers.empty()) {
      VisitUpwards(cgroup_root, path,
                   [&](const std::string& folder) { Lower(folder + "/memory.max", limit); });
    } else if (controllers.find(",memory,") != std::string::npos) {
      VisitUpwards(cgroup_root + "/memory", path, [&](const std::string& folder) {
        Lower(folder + "/memory.limit_in_bytes", limit);
      });
    }
  });
  return limit;
}

Cores ReadCores() { return ReadCores("/sys/fs/cgroup", "/proc/self/cgroup"); }

Cores ReadCores(const std::string& cgroup_root, const std::string& self_cgroup) {
  Cores cores;
  cores.online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cores.affinity = AffinityCores(cores.online);
  cores.quota = CgroupQuota(cgroup_root, self_cgroup);
  cores.usable = cores.affinity;
  cores.source = cores.affinity < cores.online ? "affinity" : "online";
  const int whole_quota = std::max(1, static_cast<int>(std::floor(cores.quota)));
  if (cores.quota > 0 && whole_quota < cores.usable) {
    cores.usable = whole_quota;
    cores.source = "cgroup quota";
  }
  return cores;
}

std::string WidestIsa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return "avx512";
  if (__builtin_cpu_supports("avx2")) return "avx2";
  if (__builtin_cpu_supports("sse4.2")) return "sse4";
#endif
  return "scalar";
}

int64_t PeakRssBytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024;
}

double ProcessCpuSeconds() {
  timespec used{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

std::string CpuModel() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    // "model name\t: AMD EPYC ..."
    const size_t value = line.find(": ");
    if (line.rfind("model name", 0) == 0 && value != std::string::npos) {
      return line.substr(value + 2);
    }
  }
  return "unknown";
}

}  // namespace millrace
