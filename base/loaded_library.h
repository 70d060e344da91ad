#ifndef MILLRACE_BASE_LOADED_LIBRARY_H_
#define MILLRACE_BASE_LOADED_LIBRARY_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"

namespace millrace {

// A shared library that is loaded when it is first needed, so that a program can be built and
// started without it. It stays loaded until the process ends. Immutable and thread-safe.
//
// Its errors read "NEED: REASON; REMEDY", where the reason is the linker's or names the function.
class LoadedLibrary {
 public:
  // Loads `file`, a path or a name that the dynamic linker looks for.
  //   FAILED_PRECONDITION  it cannot be loaded
  static absl::StatusOr<LoadedLibrary> Load(std::string file, std::string_view need,
                                            std::string_view remedy);

  // Points `function` to the function of that name.
  //   FAILED_PRECONDITION  the library lacks it
  template <typename F>
  absl::Status Find(const char* name, F*& function) const {
    MILLRACE_ASSIGN_OR_RETURN(void* const address, AddressOf(name));
    function = reinterpret_cast<F*>(address);
    return absl::OkStatus();
  }

  // The dynamic linker's handle, for code that looks functions up by itself.
  void* handle() const { return handle_; }

 private:
  LoadedLibrary(std::string file, std::string_view need, std::string_view remedy)
      : file_(std::move(file)), need_(need), remedy_(remedy) {}

  absl::StatusOr<void*> AddressOf(const char* name) const;
  absl::Status Failed(std::string_view reason) const;

  std::string file_;
  std::string need_;
  std::string remedy_;
  void* handle_ = nullptr;
};

// The file to load, and why that one, for messages.
struct LibraryChoice {
  std::string library;
  std::string why;
};
// Chooses `library`; if that is empty, the file that the variable of the environment names; if that
// is empty too, the default.
LibraryChoice ChooseLibrary(const std::string& library, const char* variable,
                            std::string_view default_library);

}  // namespace millrace

#endif  // MILLRACE_BASE_LOADED_LIBRARY_H_
