#include "base/loaded_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace millrace {

absl::StatusOr<LoadedLibrary> LoadedLibrary::Load(std::string file, std::string_view need,
                                                  std::string_view remedy) {
  LoadedLibrary library(std::move(file), need, remedy);
  library.handle_ = dlopen(library.file_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle_ != nullptr) return library;
  const char* const reason = dlerror();
  return library.Failed(reason == nullptr ? "unknown error" : reason);
}

absl::StatusOr<void*> LoadedLibrary::AddressOf(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address != nullptr) return address;
  return Failed(absl::StrCat(file_, " lacks the function ", name));
}

absl::Status LoadedLibrary::Failed(std::string_view reason) const {
  return absl::FailedPreconditionError(
      absl::StrCat(ToAbsl(need_), ": ", ToAbsl(reason), "; ", ToAbsl(remedy_)));
}

LibraryChoice ChooseLibrary(const std::string& library, const char* variable,
                            std::string_view default_library) {
  if (!library.empty()) return {library, "asked for"};
  const char* const named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return {named, variable};
  return {std::string(default_library), absl::StrCat("the default; ", variable, " is not set")};
}

}  // namespace millrace
