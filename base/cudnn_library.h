#ifndef MILLRACE_BASE_CUDNN_LIBRARY_H_
#define MILLRACE_BASE_CUDNN_LIBRARY_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace millrace {

// The oldest cuDNN that tells the properties of a device, as cudnnGetVersion returns it.
inline constexpr size_t kOldestCudnn = 90800;

// A loaded cuDNN. It stays loaded until the process ends.
struct CudnnLibrary {
  std::string file;    // as it was loaded
  size_t version = 0;  // 91900 is 9.19.0
  // Version of the CUDA runtime that it was compiled for: 13000 is 13.0; 0: it does not tell.
  int runtime_version = 0;
  void* handle = nullptr;  // the dynamic linker's
};

// "9.19.0" of 91900.
std::string CudnnVersionText(size_t version);

// Loads `library`; if that is empty, the file that MILLRACE_CUDNN_LIBRARY names; if that is empty
// too, libcudnn.so.9 as the dynamic linker finds it.
//   FAILED_PRECONDITION  no such library, one that is not cuDNN, or an unsupported version; the
//                        text names the file, and the versions
absl::StatusOr<CudnnLibrary> LoadCudnn(const std::string& library);

}  // namespace millrace

#endif  // MILLRACE_BASE_CUDNN_LIBRARY_H_
