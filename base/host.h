#ifndef MILLRACE_BASE_HOST_H_
#define MILLRACE_BASE_HOST_H_

#include <cstdint>
#include <optional>
#include <string>

namespace millrace {

// The processors this process may use.
struct Cores {
  int online = 1;      // processors of the host
  int affinity = 1;    // those of them in the affinity mask of the process's main thread
  double quota = 0;    // cgroup CPU quota in processors; 0: none
  int usable = 1;      // max(1, min(affinity, floor(quota)))
  std::string source;  // the limit that decided: "affinity", "cgroup quota" or "online"
};

// Reads the affinity mask and the cgroup (v2, then v1) quota of this process now.
Cores ReadCores();
// The same with the cgroup files below `cgroup_root` and the processes' file `self_cgroup` (tests).
Cores ReadCores(const std::string& cgroup_root, const std::string& self_cgroup);

// The most memory that the processes of this cgroup may use together, in bytes: the least limit of
// version 2, then 1, from the cgroup itself up to the root. nullopt: there is no limit.
std::optional<uint64_t> ReadMemoryLimit();
// The same with the cgroup files below `cgroup_root` and the processes' file `self_cgroup` (tests).
std::optional<uint64_t> ReadMemoryLimit(const std::string& cgroup_root,
                                        const std::string& self_cgroup);

// The widest vectors of this processor: "avx512", "avx2", "sse4" or "scalar".
std::string WidestIsa();

// Peak resident set of this process in bytes; 0 when it cannot be read.
int64_t PeakRssBytes();

// Processor time that this process has used, all of its threads, in user and kernel mode.
double ProcessCpuSeconds();

// The processor's name as /proc/cpuinfo gives it, or "unknown".
std::string CpuModel();

}  // namespace millrace

#endif  // MILLRACE_BASE_HOST_H_
