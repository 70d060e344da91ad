#ifndef MILLRACE_BASE_HOST_USE_H_
#define MILLRACE_BASE_HOST_USE_H_

#include <cstdint>
#include <optional>
#include <string>

namespace millrace {

// The host's resources that this process has used, and those that others have, added up since the
// process or the host began. The difference of two readings is that of the time between them. A
// number that the system does not tell is nullopt.
struct HostUse {
  double now_seconds = 0;  // the time of the reading, of the steady clock

  // This process, with all of its threads.
  double user_seconds = 0;  // processor time
  double system_seconds = 0;
  int64_t voluntary_switches = 0;  // context switches: the thread had to wait
  int64_t involuntary_switches = 0;
  std::optional<int64_t> device_read_bytes;  // bytes that it made storage deliver
  std::optional<int64_t> call_read_bytes;    // bytes of its calls of read, from the page cache too

  // The cgroup of the process.
  std::optional<double> throttled_seconds;  // time in which its quota held threads back

  // Time in which at least one thread was held back by a resource: of the cgroup, or else of the
  // host.
  std::optional<double> cpu_pressure_seconds;
  std::optional<double> io_pressure_seconds;
  std::optional<double> memory_pressure_seconds;

  // The processors that this process may use, added up: core-seconds.
  std::optional<double> busy_core_seconds;    // of all processes
  std::optional<double> stolen_core_seconds;  // time that a hypervisor gave to other machines

  double process_seconds() const { return user_seconds + system_seconds; }
  // Core-seconds of the processes beside this one.
  std::optional<double> foreign_core_seconds() const;
};

// Reads all of it now.
HostUse ReadHostUse();
// The same with the files of the processes below `proc` and of the cgroups below `cgroup_root`
// (tests).
HostUse ReadHostUse(const std::string& proc, const std::string& cgroup_root);

// Returns the use between two readings; now_seconds is the time between them. A number is nullopt
// where one of the readings lacks it, and never negative.
HostUse UseBetween(const HostUse& earlier, const HostUse& later);

// Returns the share of one of `parts` threads of work that do the same, such as the replicas of a
// process. The process's own use is divided; the time, and the use of the cgroup and the host, are
// the same for each.
HostUse ShareOf(HostUse use, int parts);

}  // namespace millrace

#endif  // MILLRACE_BASE_HOST_USE_H_
