// Loads cuDNN at run time, as collectives/nccl/api.cc does NCCL: it takes a gigabyte, and neither
// building nor starting a program may need it.

#include "base/cudnn_library.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/loaded_library.h"
#include "base/status.h"

namespace millrace {
namespace {

constexpr char kVariable[] = "MILLRACE_CUDNN_LIBRARY";
constexpr char kDefaultLibrary[] = "libcudnn.so.9";
constexpr size_t kNextMajor = 100000;

using GetVersion = size_t();

int RuntimeVersionOf(const LoadedLibrary& library) {
  GetVersion* get_version = nullptr;
  const absl::Status found = library.Find("cudnnGetCudartVersion", get_version);
  return found.ok() ? static_cast<int>(get_version()) : 0;
}

}  // namespace

std::string CudnnVersionText(size_t version) {
  // Up to cuDNN 8 the number was major * 1000 + minor * 100 + patch.
  const size_t major_step = version < 10000 ? 1000 : 10000;
  return absl::StrCat(version / major_step, ".", version % major_step / 100, ".", version % 100);
}

absl::StatusOr<CudnnLibrary> LoadCudnn(const std::string& library) {
  const LibraryChoice choice = ChooseLibrary(library, kVariable, kDefaultLibrary);
  MILLRACE_ASSIGN_OR_RETURN(
      const LoadedLibrary loaded,
      LoadedLibrary::Load(choice.library,
                          absl::StrCat("no cuDNN: tried ", choice.library, " (", choice.why, ")"),
                          absl::StrCat("name the library with ", kVariable)));
  GetVersion* get_version = nullptr;
  MILLRACE_RETURN_IF_ERROR(loaded.Find("cudnnGetVersion", get_version));
  const size_t version = get_version();
  if (version >= kOldestCudnn && version < kNextMajor) {
    return CudnnLibrary{choice.library, version, RuntimeVersionOf(loaded), loaded.handle()};
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cuDNN library ", choice.library, " is version ", CudnnVersionText(version),
                   "; wanted is ", CudnnVersionText(kOldestCudnn), " or a newer 9.x"));
}

}  // namespace millrace
