#include "cli/doctor/libraries.h"

#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cudnn_library.h"
#include "base/loaded_library.h"
#include "base/status.h"
#include "cli/doctor/library_places.h"
#include "collectives/nccl_library.h"

namespace millrace::cli::doctor {
namespace {

constexpr char kCudnnVariable[] = "MILLRACE_CUDNN_LIBRARY";
constexpr char kCudnnLibrary[] = "libcudnn.so.9";
constexpr char kNcclVariable[] = "MILLRACE_NCCL_LIBRARY";
constexpr char kNcclLibrary[] = "libnccl.so.2";
constexpr const char* kRuntimes[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};

std::string VariableOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> PlacesHere(const std::string& name) {
  return PlacesOf(name, "", &VariableOf);
}

using Ask = absl::StatusOr<LibraryReport> (*)(const std::string& file);

// The library that is taken by itself, which `ask` loads for the name `taken`; else, unless the
// user has named one, the first that loads of the places where the linker does not look. The error
// is that of the former.
LibraryReport TakenOrElsewhere(const std::string& taken, const std::string& name,
                               bool is_named_by_user, Ask ask) {
  const absl::StatusOr<LibraryReport> report = ask(taken);
  if (report.ok()) return *report;
  const std::vector<std::string> places =
      is_named_by_user ? std::vector<std::string>() : PlacesHere(name);
  for (const std::string& place : places) {
    absl::StatusOr<LibraryReport> other = ask(place);
    if (!other.ok()) continue;
    other->elsewhere = 1;
    return *std::move(other);
  }
  return {.error = std::string(report.status().message())};
}

absl::StatusOr<LibraryReport> AskRuntime(const std::string& file) {
  MILLRACE_ASSIGN_OR_RETURN(
      const LoadedLibrary library,
      LoadedLibrary::Load(file, "no CUDA runtime", "programs that need one bring theirs"));
  int (*get_version)(int* version) = nullptr;  // cudaRuntimeGetVersion; 0 is success
  MILLRACE_RETURN_IF_ERROR(library.Find("cudaRuntimeGetVersion", get_version));
  int version = 0;
  if (get_version(&version) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(file, ": cudaRuntimeGetVersion failed"));
  }
  return LibraryReport{.file = file, .version = CudaVersionText(version), .cuda = version};
}

absl::StatusOr<LibraryReport> AskCudnn(const std::string& file) {
  MILLRACE_ASSIGN_OR_RETURN(const CudnnLibrary cudnn, LoadCudnn(file));
  return LibraryReport{.file = cudnn.file,
                       .version = CudnnVersionText(cudnn.version),
                       .cuda = cudnn.runtime_version};
}

absl::StatusOr<LibraryReport> AskNccl(const std::string& file) {
  MILLRACE_ASSIGN_OR_RETURN(const auto nccl, collectives::FindNcclLibrary(file));
  return LibraryReport{
      .file = nccl.library, .version = nccl.version, .limited = nccl.can_register ? 0 : 1};
}

LibraryReport FindRuntime() {
  LibraryReport report;
  for (const char* name : kRuntimes) {
    report = TakenOrElsewhere(name, name, /*is_named_by_user=*/false, &AskRuntime);
    if (report.error.empty()) return report;
  }
  return report;
}

LibraryReport FindCudnn() {
  return TakenOrElsewhere("", kCudnnLibrary, !VariableOf(kCudnnVariable).empty(), &AskCudnn);
}

LibraryReport FindNccl() {
  return TakenOrElsewhere("", kNcclLibrary, !VariableOf(kNcclVariable).empty(), &AskNccl);
}

}  // namespace

std::string CudaVersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

void ProbeLibraries(const std::function<void(const LibrariesReport&)>& send) {
  LibrariesReport report;
  const auto find = [&](const char* what, LibraryReport& library, LibraryReport (*look)()) {
    report.end.doing = what;
    send(report);
    library = look();
  };
  find(kLoadingRuntime, report.runtime, &FindRuntime);
  find(kLoadingCudnn, report.cudnn, &FindCudnn);
  find(kLoadingNccl, report.nccl, &FindNccl);
  report.end.doing.clear();
  send(report);
}

}  // namespace millrace::cli::doctor
