#ifndef MILLRACE_TESTS_COLLECTIVES_NCCL_NCCL_FIXTURE_H_
#define MILLRACE_TESTS_COLLECTIVES_NCCL_NCCL_FIXTURE_H_

#include <dlfcn.h>

#include <functional>
#include <string>

#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/nccl/on_device.h"
#include "tests/collectives/cuda/host_queue.h"
#include "tests/collectives/nccl/fake_nccl.h"

namespace millrace::collectives {

// The control of the fake library at `path`, which it loads.
inline FakeNcclControl& ControlOf(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<GetFakeNcclControl*>(dlsym(handle, kGetFakeNcclControl))();
}

using NcclBody = std::function<absl::Status(NcclCommunicator&)>;

// `body` on `size` ranks over the fake library that `options` names.
inline absl::Status RunOverFakeNccl(int size, const NcclOptions& options, const NcclBody& body) {
  return RunRanks(size, [&](Communicator& bootstrap) {
    MILLRACE_ASSIGN_OR_RETURN(const auto comm, nccl::MakeNcclOn(bootstrap, options, MakeHostQueue));
    return body(*comm);
  });
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_NCCL_NCCL_FIXTURE_H_
