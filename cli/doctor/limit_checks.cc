#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bytes_text.h"
#include "base/number_text.h"
#include "cli/doctor/checks.h"

// Limits of the process, /dev/shm, and the launchers.

namespace millrace::cli::doctor {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

struct ProcessLimit {
  uint64_t soft = 0;
  uint64_t hard = 0;
};

// The line of /proc/self/limits that begins with `name`: "Max open files   1024   4096   files".
std::optional<ProcessLimit> ProcessLimitOf(const Host& host, const std::string& name) {
  const auto number = [](const std::string& word) {
    if (word == "unlimited") return kUnlimited;
    return static_cast<uint64_t>(NumberOf(word).value_or(0));
  };
  std::istringstream in(TextOf(host, "/proc/self/limits"));
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(name, 0) != 0) continue;
    const std::vector<std::string> words = WordsOf(line.substr(name.size()));
    if (words.size() >= 2) return ProcessLimit{number(words[0]), number(words[1])};
  }
  return std::nullopt;
}

std::string BytesOrUnlimited(uint64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : BytesText(static_cast<double>(bytes));
}

Finding Unreadable(const std::string& what) {
  return Skipped(what, "/proc/self/limits does not tell");
}

// Half of them are for shards; the oldest is closed for another one.
Finding CheckOpenFiles(const Host& host) {
  constexpr uint64_t kFew = 1024;
  constexpr uint64_t kMany = 65536;
  const auto limit = ProcessLimitOf(host, "Max open files");
  if (!limit) return Unreadable("open files");
  uint64_t num_files = 0;
  for (const DiskRate& disk : host.disks) num_files += disk.num_files;
  const std::string found = absl::StrCat("at most ", Grouped(limit->soft));
  const bool closes_shards = num_files > limit->soft / 2;
  Finding finding = Fine("open files", found);
  if (limit->soft < kFew || closes_shards) {
    const std::string why = closes_shards
                                ? absl::StrCat("; half of them for ", Grouped(num_files),
                                               " shards, which are closed and opened again")
                                : "; shards are closed and opened again, and connections may fail";
    finding = Warned("open files", found + why,
                     absl::StrCat("ulimit -n ", std::min(kMany, limit->hard),
                                  limit->hard < kMany ? " is allowed; more in limits.conf" : ""));
  }
  finding.numbers = {{"soft", static_cast<double>(limit->soft)}};
  return finding;
}

// CUDA's driver locks pages without counting them. Verbs of InfiniBand count.
Finding CheckLockedMemory(const Host& host) {
  const auto limit = ProcessLimitOf(host, "Max locked memory");
  if (!limit) return Unreadable("locked memory");
  const std::string found = BytesOrUnlimited(limit->soft);
  const bool has_infiniband = !NamesIn(host, "/sys/class/infiniband").empty();
  if (limit->soft == kUnlimited || !has_infiniband) return Fine("locked memory", found);
  return Warned("locked memory", found + "; NCCL and MPI register more over InfiniBand",
                "ulimit -l unlimited (docker run --ulimit memlock=-1; systemd: "
                "LimitMEMLOCK=infinity)");
}

// Where the limit is "unlimited", glibc gives threads 2 MiB. NCCL's search for paths between
// devices may need more.
Finding CheckStack(const Host& host) {
  constexpr uint64_t kLeast = uint64_t{2} << 20;
  const auto limit = ProcessLimitOf(host, "Max stack size");
  if (!limit) return Unreadable("stack");
  const std::string found = BytesOrUnlimited(limit->soft);
  const bool is_small = limit->soft == kUnlimited || limit->soft <= kLeast;
  if (!is_small || host.gpus.devices.empty()) return Fine("stack", found);
  return Warned("stack", found + "; threads get 2 MiB or less, and NCCL may need more",
                "ulimit -s 8192");
}

Finding CheckCoreFiles(const Host& host) {
  const auto limit = ProcessLimitOf(host, "Max core file size");
  if (!limit) return Unreadable("core files");
  if (limit->soft == 0) {
    return Fine("core files", "off: a crash leaves none (ulimit -c unlimited to have them)");
  }
  return Fine("core files", BytesOrUnlimited(limit->soft));
}

// Ranks of one host have a copy of the gradients each, in whole huge pages.
constexpr uint64_t kResNet50Bytes = uint64_t{25557032} * 4;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

uint64_t SharedBytes(uint64_t num_ranks) {
  return num_ranks * ((kResNet50Bytes + kHugePage - 1) / kHugePage * kHugePage);
}

std::string FirstInPath(const Host& host, const std::vector<std::string>& names) {
  std::istringstream folders(host.program_path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    for (const std::string& name : names) {
      const std::string path = absl::StrCat(folder, "/", name);
      struct stat info = {};
      if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) return path;
    }
  }
  return "";
}

}  // namespace

Findings CheckLimits(const Host& host) {
  return {CheckOpenFiles(host), CheckLockedMemory(host), CheckStack(host), CheckCoreFiles(host)};
}

Findings CheckSharedMemory(const Host& host) {
  const uint64_t num_ranks = std::max<uint64_t>(2, host.gpus.devices.size());
  const uint64_t needed = SharedBytes(num_ranks);
  const std::string need =
      absl::StrCat(num_ranks, " ranks of ResNet-50 share ", BytesText(static_cast<double>(needed)));
  const std::string mend =
      "docker run --shm-size=1g (or --ipc=host); Kubernetes: an emptyDir of medium Memory at "
      "/dev/shm; else mount -o remount,size=1g /dev/shm";
  if (!host.shared_memory) {
    return {Warned("shared memory", "no /dev/shm; ranks of one host send their gradients instead",
                   mend)};
  }
  const Space& space = *host.shared_memory;
  const std::string found =
      absl::StrCat(BytesText(static_cast<double>(space.free_bytes)), " of ",
                   BytesText(static_cast<double>(space.total_bytes)), " free in /dev/shm; ", need);
  Finding finding = space.free_bytes < needed ? Warned("shared memory", found, mend)
                                              : Fine("shared memory", found);
  finding.numbers = {{"total_bytes", static_cast<double>(space.total_bytes)},
                     {"free_bytes", static_cast<double>(space.free_bytes)},
                     {"needed_bytes", static_cast<double>(needed)}};
  return {finding};
}

Findings CheckMpi(const Host& host) {
  if (!host.has_mpi) return {Skipped("mpi", "not in this build; ranks meet over TCP")};
  const std::string launcher = FirstInPath(host, {"mpirun", "mpiexec", "srun"});
  if (launcher.empty()) return {Skipped("mpi", "in this build, but no mpirun is in PATH")};
  return {Fine("mpi", absl::StrCat("in this build; ", launcher))};
}

}  // namespace millrace::cli::doctor
