#ifndef MILLRACE_BASE_CGROUPS_H_
#define MILLRACE_BASE_CGROUPS_H_

#include <cstddef>
#include <fstream>
#include <string>

// The cgroups of this process, version 2 or 1.

namespace millrace {

// Calls `visit(folder)` for the folder of `path` below `root` and all above it, up to the root: a
// limit on any of them binds.
template <typename Visit>
void VisitUpwards(const std::string& root, std::string path, const Visit& visit) {
  while (true) {
    visit(root + path);
    const size_t slash = path.rfind('/');
    if (path.empty() || path == "/" || slash == std::string::npos) break;
    path.resize(slash);
  }
  visit(root);
}

// Calls `visit(controllers, path)` for each cgroup of the process whose file is `self_cgroup`: ""
// is version 2, ",cpu,cpuacct," version 1.
template <typename Visit>
void VisitCgroups(const std::string& self_cgroup, const Visit& visit) {
  std::ifstream in(self_cgroup);
  std::string line;
  while (std::getline(in, line)) {
    // "0::/path" is version 2; "4:cpu,cpuacct:/path" version 1.
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    visit(controllers.empty() ? "" : "," + controllers + ",", line.substr(second + 1));
  }
}

}  // namespace millrace

#endif  // MILLRACE_BASE_CGROUPS_H_
