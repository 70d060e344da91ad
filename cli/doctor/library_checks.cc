#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/libraries.h"

// The CUDA runtime, cuDNN and NCCL.

namespace millrace::cli::doctor {
namespace {

constexpr int kMajor = 1000;  // in CUDA's version numbers: 13000 is 13.0

struct Wanted {
  std::string what;           // the check
  std::string loading;        // ProbeEnd::doing while it is loaded
  std::string variable = {};  // of the environment, that names the library; empty: there is none
  std::string wheel = {};     // the package of PyPI that has it, without CUDA's version at the end
  std::string why = {};       // the part of Millrace that needs it
};

// True if no answer came, because loading hung or crashed.
bool WasLost(const Host& host, const LibraryReport& library) {
  return library.file.empty() && library.error.empty() && !host.libraries.end.doing.empty();
}

Finding Lost(const Host& host, const Wanted& wanted) {
  const ProbeEnd& end = host.libraries.end;
  const std::string how =
      end.signal != 0 ? absl::StrCat("crashed with signal ", end.signal) : "did not come back";
  const std::string found = absl::StrCat(end.doing, " ", how);
  if (end.doing != wanted.loading) return Skipped(wanted.what, "not asked: " + found);
  return Failed(wanted.what, found, "install it anew");
}

// True if there is a library that does not do, or the user has named one that is not there.
bool IsFaulty(const LibraryReport& library, const Wanted& wanted) {
  const std::string& error = library.error;
  const bool is_absent = error.rfind("no ", 0) == 0 && error.find(" lacks ") == std::string::npos;
  const bool is_named = !wanted.variable.empty() &&
                        error.find(absl::StrCat("(", wanted.variable, ")")) != std::string::npos;
  return !is_absent || is_named;
}

Finding Missing(const Host& host, const LibraryReport& library, const Wanted& wanted) {
  if (IsFaulty(library, wanted)) {
    return Warned(wanted.what, library.error, "install it anew, or name another one");
  }
  if (host.gpus.devices.empty() || wanted.wheel.empty()) {
    return Skipped(wanted.what, absl::StrCat("not found; only ", wanted.why, " needs it"));
  }
  return Warned(wanted.what, library.error,
                absl::StrCat("pip install ", wanted.wheel, host.gpus.driver_version / kMajor,
                             ", and name its library with ", wanted.variable));
}

// cudaErrorInsufficientDriver is what a program gets whose runtime is of a later major version than
// the driver serves; a later minor version is allowed.
bool NeedsNewerDriver(const Host& host, const LibraryReport& library) {
  const int driver = host.gpus.driver_version;
  return driver > 0 && library.cuda / kMajor > driver / kMajor;
}

Finding FindingOfLibrary(const Host& host, const LibraryReport& library, const Wanted& wanted) {
  if (WasLost(host, library)) return Lost(host, wanted);
  if (library.file.empty()) return Missing(host, library, wanted);
  std::string found = absl::StrCat(library.version, " (", library.file, ")");
  if (NeedsNewerDriver(host, library)) {
    return Failed(
        wanted.what,
        absl::StrCat(found, " needs CUDA ", CudaVersionText(library.cuda), "; the driver serves ",
                     CudaVersionText(host.gpus.driver_version), " (cudaErrorInsufficientDriver)"),
        absl::StrCat("update NVIDIA's driver, or install the version for CUDA ",
                     host.gpus.driver_version / kMajor));
  }
  if (library.elsewhere != 0 && !wanted.variable.empty()) {
    absl::StrAppend(&found, ", where nothing looks for it");
    const std::string mend = absl::StrCat("export ", wanted.variable, "=", library.file);
    return host.gpus.devices.empty() ? Skipped(wanted.what, found, mend)
                                     : Warned(wanted.what, found, mend);
  }
  return Fine(wanted.what, found);
}

}  // namespace

Findings CheckRuntime(const Host& host) {
  Finding finding = FindingOfLibrary(
      host, host.libraries.runtime,
      {.what = "cuda runtime", .loading = kLoadingRuntime, .why = "a build with CUDA"});
  const bool is_needed = host.kernel_capability > 0;
  if (finding.verdict == Verdict::kFail && !is_needed) finding.verdict = Verdict::kWarn;
  return {finding};
}

Findings CheckCudnn(const Host& host) {
  return {FindingOfLibrary(host, host.libraries.cudnn,
                           {.what = "cudnn",
                            .loading = kLoadingCudnn,
                            .variable = "MILLRACE_CUDNN_LIBRARY",
                            .wheel = "nvidia-cudnn-cu",
                            .why = "a trainer on GPUs"})};
}

Findings CheckNccl(const Host& host) {
  const LibraryReport& nccl = host.libraries.nccl;
  Finding finding = FindingOfLibrary(host, nccl,
                                     {.what = "nccl",
                                      .loading = kLoadingNccl,
                                      .variable = "MILLRACE_NCCL_LIBRARY",
                                      .wheel = "nvidia-nccl-cu",
                                      .why = "a job on several GPUs"});
  if (finding.verdict == Verdict::kOk && nccl.limited != 0) {
    finding = Warned("nccl", finding.found + " registers no memory, which reducers on GPUs need",
                     "install NCCL 2.19 or newer");
  }
  if (finding.verdict == Verdict::kWarn && host.gpus.devices.size() == 1) {
    absl::StrAppend(&finding.found, "; one GPU trains without it");
  }
  return {finding};
}

}  // namespace millrace::cli::doctor
