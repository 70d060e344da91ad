#include "cli/doctor/host.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "base/affinity.h"
#include "collectives/factory.h"

namespace millrace::cli::doctor {
namespace {

std::optional<Space> SpaceOf(const char* folder) {
  struct statvfs found = {};
  if (::statvfs(folder, &found) != 0) return std::nullopt;
  return Space{.total_bytes = uint64_t{found.f_blocks} * found.f_frsize,
               .free_bytes = uint64_t{found.f_bavail} * found.f_frsize};
}

bool HasMpiBackend() {
  const std::vector<std::string> names = collectives::BackendNames();
  return std::ranges::find(names, "mpi") != names.end();
}

}  // namespace

Host ThisHost() {
  Host host;
  const char* const path = std::getenv("PATH");
  host.program_path = path == nullptr ? "" : path;
  host.cores = ReadCores();
  host.processors = UsableProcessors();
  host.memory_limit_bytes = ReadMemoryLimit();
  host.shared_memory = SpaceOf("/dev/shm");
  host.has_mpi = HasMpiBackend();
  host.kernel_capability = MILLRACE_KERNEL_CAPABILITY;  // of cli/CMakeLists.txt
  return host;
}

std::string LineOf(const Host& host, const std::string& path) {
  std::ifstream in(host.root + path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string TextOf(const Host& host, const std::string& path) {
  std::ifstream in(host.root + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> NamesIn(const Host& host, const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(host.root + folder, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> WordsOf(std::string_view text) {
  std::istringstream in{std::string(text)};
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<int> NumbersOf(std::string_view list) {
  std::istringstream in{std::string(list)};
  std::vector<int> numbers;
  std::string part;
  while (std::getline(in, part, ',')) {
    const size_t dash = part.find('-');
    const auto first = NumberOf(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : NumberOf(part.substr(dash + 1));
    if (!first || !last) continue;
    for (int64_t number = *first; number <= *last; ++number) {
      numbers.push_back(static_cast<int>(number));
    }
  }
  return numbers;
}

std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace millrace::cli::doctor
