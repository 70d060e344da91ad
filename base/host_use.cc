#include "base/host_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/affinity.h"
#include "base/cgroups.h"

namespace millrace {
namespace {

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void ReadProcessorTime(HostUse& use) {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return;
  use.user_seconds = SecondsOf(usage.ru_utime);
  use.system_seconds = SecondsOf(usage.ru_stime);
  use.voluntary_switches = usage.ru_nvcsw;
  use.involuntary_switches = usage.ru_nivcsw;
}

// Returns the number behind the word `name` in a file of lines "name number" or "name: number".
std::optional<int64_t> NumberOf(const std::string& file, std::string_view name) {
  std::ifstream in(file);
  std::string word;
  int64_t number = 0;
  while (in >> word) {
    if (word.ends_with(':')) word.pop_back();
    if (word == name && in >> number) return number;
  }
  return std::nullopt;
}

std::optional<double> Scaled(std::optional<int64_t> number, double scale) {
  if (!number.has_value()) return std::nullopt;
  return scale * static_cast<double>(*number);
}

// Version 2 counts microseconds of a cgroup, version 1 nanoseconds. A quota further up throttles
// too: the most of them.
std::optional<double> Throttled(const std::string& root, const std::string& self_cgroup) {
  std::optional<double> most;
  const auto take = [&most](std::optional<double> seconds) { most = std::max(most, seconds); };
  VisitCgroups(self_cgroup, [&](const std::string& controllers, const std::string& path) {
    if (controllers.empty()) {
      VisitUpwards(root, path, [&](const std::string& folder) {
        take(Scaled(NumberOf(folder + "/cpu.stat", "throttled_usec"), 1e-6));
      });
    } else if (controllers.find(",cpu,") != std::string::npos) {
      VisitUpwards(root + "/cpu", path, [&](const std::string& folder) {
        take(Scaled(NumberOf(folder + "/cpu.stat", "throttled_time"), 1e-9));
      });
    }
  });
  return most;
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=123" in microseconds.
std::optional<double> PressureIn(const std::string& file) {
  constexpr std::string_view kTotal = "total=";
  std::ifstream in(file);
  std::string word;
  if (!(in >> word) || word != "some") return std::nullopt;
  while (in >> word && word != "full") {
    if (word.starts_with(kTotal)) {
      return 1e-6 * std::strtod(word.c_str() + kTotal.size(), nullptr);
    }
  }
  return std::nullopt;
}

// `resource` is "cpu", "io" or "memory".
std::optional<double> Pressure(const std::string& proc, const std::string& root,
                               const std::string& resource) {
  std::optional<double> seconds;
  VisitCgroups(proc + "/self/cgroup", [&](const std::string& controllers, const std::string& path) {
    if (!controllers.empty()) return;
    VisitUpwards(root, path, [&](const std::string& folder) {
      if (!seconds.has_value()) seconds = PressureIn(folder + "/" + resource + ".pressure");
    });
  });
  return seconds.has_value() ? seconds : PressureIn(proc + "/pressure/" + resource);
}

// Lines "cpu3 user nice system idle iowait irq softirq steal ..." in ticks of the system.
void ReadProcessors(const std::string& proc, HostUse& use) {
  std::set<std::string> usable;
  for (const int processor : UsableProcessors()) {
    usable.insert("cpu" + std::to_string(processor));
  }
  const double tick = 1.0 / static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  std::ifstream in(proc + "/stat");
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    std::array<double, 8> ticks{};
    words >> name;
    if (!usable.contains(name)) continue;
    for (double& number : ticks) words >> number;
    if (!words) continue;
    const auto [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    use.busy_core_seconds =
        use.busy_core_seconds.value_or(0) + tick * (user + nice + system + irq + softirq);
    use.stolen_core_seconds = use.stolen_core_seconds.value_or(0) + tick * steal;
  }
}

template <typename T>
std::optional<T> Minus(std::optional<T> later, std::optional<T> earlier) {
  if (!later.has_value() || !earlier.has_value()) return std::nullopt;
  return std::max(T{0}, *later - *earlier);
}

}  // namespace

std::optional<double> HostUse::foreign_core_seconds() const {
  if (!busy_core_seconds.has_value()) return std::nullopt;
  return std::max(0.0, *busy_core_seconds - process_seconds());
}

HostUse ReadHostUse() { return ReadHostUse("/proc", "/sys/fs/cgroup"); }

HostUse ReadHostUse(const std::string& proc, const std::string& cgroup_root) {
  HostUse use;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  use.now_seconds = std::chrono::duration<double>(now).count();
  ReadProcessorTime(use);
  use.device_read_bytes = NumberOf(proc + "/self/io", "read_bytes");
  use.call_read_bytes = NumberOf(proc + "/self/io", "rchar");
  use.throttled_seconds = Throttled(cgroup_root, proc + "/self/cgroup");
  use.cpu_pressure_seconds = Pressure(proc, cgroup_root, "cpu");
  use.io_pressure_seconds = Pressure(proc, cgroup_root, "io");
  use.memory_pressure_seconds = Pressure(proc, cgroup_root, "memory");
  ReadProcessors(proc, use);
  return use;
}

HostUse UseBetween(const HostUse& earlier, const HostUse& later) {
  HostUse use;
  use.now_seconds = std::max(0.0, later.now_seconds - earlier.now_seconds);
  use.user_seconds = std::max(0.0, later.user_seconds - earlier.user_seconds);
  use.system_seconds = std::max(0.0, later.system_seconds - earlier.system_seconds);
  use.voluntary_switches = later.voluntary_switches - earlier.voluntary_switches;
  use.involuntary_switches = later.involuntary_switches - earlier.involuntary_switches;
  use.device_read_bytes = Minus(later.device_read_bytes, earlier.device_read_bytes);
  use.call_read_bytes = Minus(later.call_read_bytes, earlier.call_read_bytes);
  use.throttled_seconds = Minus(later.throttled_seconds, earlier.throttled_seconds);
  use.cpu_pressure_seconds = Minus(later.cpu_pressure_seconds, earlier.cpu_pressure_seconds);
  use.io_pressure_seconds = Minus(later.io_pressure_seconds, earlier.io_pressure_seconds);
  use.memory_pressure_seconds =
      Minus(later.memory_pressure_seconds, earlier.memory_pressure_seconds);
  use.busy_core_seconds = Minus(later.busy_core_seconds, earlier.busy_core_seconds);
  use.stolen_core_seconds = Minus(later.stolen_core_seconds, earlier.stolen_core_seconds);
  return use;
}

HostUse ShareOf(HostUse use, int parts) {
  use.user_seconds /= parts;
  use.system_seconds /= parts;
  use.voluntary_switches /= parts;
  use.involuntary_switches /= parts;
  if (use.device_read_bytes.has_value()) *use.device_read_bytes /= parts;
  if (use.call_read_bytes.has_value()) *use.call_read_bytes /= parts;
  return use;
}

}  // namespace millrace
