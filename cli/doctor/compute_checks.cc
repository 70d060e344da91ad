#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/bytes_text.h"
#include "base/context.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/pci.h"

// Cores, vectors, memory and the clock.

namespace millrace::cli::doctor {
namespace {

// The value of the first line of /proc/cpuinfo with that name.
std::string OfProcessor(const Host& host, const std::string& name) {
  std::istringstream in(TextOf(host, "/proc/cpuinfo"));
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(": ");
    if (line.rfind(name, 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

// The bytes of a line of /proc/meminfo, such as "MemTotal:  16384000 kB".
std::optional<uint64_t> MemoryOf(const Host& host, const std::string& name) {
  std::istringstream in(TextOf(host, "/proc/meminfo"));
  std::string line;
  while (std::getline(in, line)) {
    const std::vector<std::string> words = WordsOf(line);
    if (words.size() < 2 || words[0] != name + ":") continue;
    const auto kib = NumberOf(words[1]);
    if (kib && *kib >= 0) return static_cast<uint64_t>(*kib) << 10;
  }
  return std::nullopt;
}

// A NUMA node that has processors.
struct Node {
  int number = 0;
  size_t num_processors = 0;
  size_t num_usable = 0;
  std::vector<std::string> gpus = {};
};

std::vector<Node> NodesOf(const Host& host) {
  constexpr char kFolder[] = "/sys/devices/system/node";
  const std::set<int> usable(host.processors.begin(), host.processors.end());
  std::vector<Node> nodes;
  for (const std::string& name : NamesIn(host, kFolder)) {
    const auto number = name.rfind("node", 0) == 0 ? NumberOf(name.substr(4)) : std::nullopt;
    if (!number) continue;
    const std::vector<int> processors =
        NumbersOf(LineOf(host, absl::StrCat(kFolder, "/", name, "/cpulist")));
    if (processors.empty()) continue;
    const auto num_usable = std::ranges::count_if(
        processors, [&usable](int processor) { return usable.contains(processor); });
    nodes.push_back({.number = static_cast<int>(*number),
                     .num_processors = processors.size(),
                     .num_usable = static_cast<size_t>(num_usable)});
  }
  std::ranges::sort(nodes, {}, &Node::number);
  return nodes;
}

void AddGpus(const Host& host, std::vector<Node>& nodes) {
  for (const std::string& gpu : NvidiaGpus(host)) {
    const auto number = NodeOf(host, gpu);
    const auto node = std::ranges::find_if(
        nodes, [&number](const Node& each) { return number && each.number == *number; });
    if (node != nodes.end()) node->gpus.push_back(gpu);
  }
}

std::string NodeText(const Node& node) {
  std::string text = absl::StrCat("node ", node.number, ": ", node.num_usable, " of ",
                                  node.num_processors, " cores");
  if (!node.gpus.empty()) absl::StrAppend(&text, ", GPUs ", absl::StrJoin(node.gpus, ", "));
  return text;
}

}  // namespace

// A process per GPU runs its own thread, the pipeline's workers and the driver's.
Findings CheckCores(const Host& host) {
  const Cores& cores = host.cores;
  std::string found = absl::StrCat(cores.usable, " of ", cores.online, " usable");
  if (cores.source != "online") absl::StrAppend(&found, " (", cores.source);
  if (cores.source == "cgroup quota") absl::StrAppendFormat(&found, " %.3g", cores.quota);
  if (cores.source != "online") absl::StrAppend(&found, ")");
  const std::string model = OfProcessor(host, "model name");
  if (!model.empty()) absl::StrAppend(&found, ", ", model);
  const auto num_gpus = static_cast<int>(host.gpus.devices.size());
  const bool is_few = cores.usable <= std::max(1, num_gpus);
  Finding finding = Fine("cores", found);
  if (is_few) {
    const std::string why = num_gpus > 1 ? absl::StrCat("; ", num_gpus, " GPUs need more")
                                         : "; reading, decoding and computing share one";
    finding = Warned("cores", found + why,
                     "give the process more: docker run --cpus, srun --cpus-per-task, taskset, "
                     "mpirun --bind-to none");
  }
  finding.numbers = {{"usable", static_cast<double>(cores.usable)},
                     {"online", static_cast<double>(cores.online)},
                     {"quota", cores.quota}};
  return {finding};
}

Findings CheckVectors(const Host& host) {
  const std::vector<std::string> flags = WordsOf(OfProcessor(host, "flags"));
  if (flags.empty()) return {Skipped("vectors", "/proc/cpuinfo names none")};
  // In ascending order.
  constexpr std::array kKinds = {"sse4_2",      "avx2",        "avx512bw", "avx512_vnni",
                                 "avx512_bf16", "avx512_fp16", "amx_bf16"};
  std::vector<std::string> found;
  for (const char* kind : kKinds) {
    if (std::ranges::find(flags, kind) != flags.end()) found.emplace_back(kind);
  }
  const std::string text = found.empty() ? "none that help" : absl::StrJoin(found, ", ");
  if (std::ranges::find(found, "avx2") != found.end()) return {Fine("vectors", text)};
  return {Warned("vectors", text + "; without avx2 decoding and computing are slow",
                 "use another machine, or pass the host's instructions on to this virtual machine "
                 "(qemu: -cpu host)")};
}

// A pipeline's budget is 2 GiB, but at most three quarters of the cgroup's limit.
Findings CheckMemory(const Host& host) {
  const auto total = MemoryOf(host, "MemTotal");
  const auto available = MemoryOf(host, "MemAvailable");
  if (!total || !available) return {Skipped("memory", "/proc/meminfo does not tell")};
  const uint64_t limit = std::min(host.memory_limit_bytes.value_or(*total), *total);
  std::string found = absl::StrCat(BytesText(static_cast<double>(*available)), " of ",
                                   BytesText(static_cast<double>(*total)), " available");
  if (limit < *total) {
    absl::StrAppend(&found, "; the cgroup's limit is ", BytesText(static_cast<double>(limit)));
  }
  const auto budget = static_cast<uint64_t>(kDefaultMemoryBudget);
  Finding finding = Fine("memory", found);
  if (limit / 4 * 3 < budget) {
    finding = Warned("memory", found + "; pipelines get less than their usual budget of 2 GiB",
                     "raise the limit (docker run --memory), or set memory_budget_mib in the plan");
  } else if (*available < budget) {
    finding = Warned("memory", found + "; a pipeline's budget is 2 GiB",
                     "end other programs, or set memory_budget_mib in the plan");
  }
  finding.numbers = {{"total_bytes", static_cast<double>(*total)},
                     {"available_bytes", static_cast<double>(*available)},
                     {"limit_bytes", static_cast<double>(limit)}};
  return {finding};
}

// Batches, indexes and the trainer's memory ask for huge pages by madvise.
Findings CheckHugePages(const Host& host) {
  constexpr char kFile[] = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string line = LineOf(host, kFile);
  const size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return {Skipped("huge pages", "this kernel does not tell")};
  }
  const std::string mode = line.substr(begin + 1, end - begin - 1);
  if (mode != "never") return {Fine("huge pages", mode)};
  return {Warned("huge pages", "never; batches and indexes ask for them",
                 absl::StrCat("echo madvise | sudo tee ", kFile))};
}

Findings CheckNuma(const Host& host) {
  std::vector<Node> nodes = NodesOf(host);
  if (nodes.empty()) return {Skipped("numa", "this kernel tells of no node")};
  if (nodes.size() == 1) return {Fine("numa", "one node")};
  AddGpus(host, nodes);
  Finding finding = Fine("numa", absl::StrCat(nodes.size(), " nodes"));
  const auto far = std::ranges::find_if(
      nodes, [](const Node& node) { return !node.gpus.empty() && node.num_usable == 0; });
  if (far != nodes.end()) {
    finding = Warned("numa",
                     absl::StrCat(nodes.size(), " nodes; no usable core is on node ", far->number,
                                  ", where GPU ", far->gpus.front(), " is"),
                     absl::StrCat("numactl --cpunodebind=", far->number, " --membind=", far->number,
                                  " millrace ..."));
  }
  for (const Node& node : nodes) finding.details.push_back(NodeText(node));
  return {finding};
}

// The time is asked for around each piece of work. From these sources it is read from a device,
// which takes a call of the kernel and about a microsecond.
Findings CheckClock(const Host& host) {
  const std::string folder = "/sys/devices/system/clocksource/clocksource0";
  const std::string current = LineOf(host, folder + "/current_clocksource");
  if (current.empty()) return {Skipped("clock", "this kernel does not tell")};
  constexpr std::array kSlow = {"hpet", "acpi_pm", "refined-jiffies", "jiffies", "xen"};
  if (std::ranges::find(kSlow, current) == kSlow.end()) return {Fine("clock", current)};
  const std::vector<std::string> others = WordsOf(LineOf(host, folder + "/available_clocksource"));
  const bool has_tsc = std::ranges::find(others, "tsc") != others.end();
  return {Warned("clock", current + " is slow to read, and every step of a pipeline reads it",
                 has_tsc ? absl::StrCat("echo tsc | sudo tee ", folder, "/current_clocksource")
                         : "dmesg | grep -i tsc says why the processor's counter is not used")};
}

}  // namespace millrace::cli::doctor
