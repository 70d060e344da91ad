#include "cli/doctor/library_places.h"

#include <glob.h>

#include <algorithm>

namespace millrace::cli::doctor {
namespace {

void AddMatches(const std::string& pattern, std::vector<std::string>& found) {
  glob_t matches = {};
  if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    for (size_t i = 0; i < matches.gl_pathc; ++i) found.emplace_back(matches.gl_pathv[i]);
  }
  ::globfree(&matches);
}

}  // namespace

std::vector<std::string> PackageFolders(const std::string& root, const Variables& variables) {
  std::vector<std::string> patterns;
  for (const char* environment : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string folder = variables(environment);
    if (!folder.empty()) patterns.push_back(folder + "/lib/python3*/site-packages");
  }
  const std::string home = variables("HOME");
  if (!home.empty()) patterns.push_back(home + "/.local/lib/python3*/site-packages");
  for (const char* folder :
       {"/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages",
        "/usr/lib/python3*/dist-packages"}) {
    patterns.push_back(root + folder);
  }
  std::vector<std::string> folders;
  for (const std::string& pattern : patterns) AddMatches(pattern, folders);
  return folders;
}

std::vector<std::string> PlacesOf(const std::string& name, const std::string& root,
                                  const Variables& variables) {
  std::vector<std::string> places;
  for (const std::string& folder : PackageFolders(root, variables)) {
    AddMatches(folder + "/nvidia/*/lib/" + name, places);
    AddMatches(folder + "/torch/lib/" + name, places);
  }
  for (const char* folder : {"/usr/local/cuda*/lib64/", "/usr/local/cuda*/lib/"}) {
    AddMatches(root + folder + name, places);
  }
  return places;
}

}  // namespace millrace::cli::doctor
