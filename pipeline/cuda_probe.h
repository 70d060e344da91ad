#ifndef MILLRACE_PIPELINE_CUDA_PROBE_H_
#define MILLRACE_PIPELINE_CUDA_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Questions about the CUDA devices of this machine, for a report about it (`millrace doctor`). The
// driver is the one that device feeds load: MILLRACE_CUDA_LIBRARY, else libcuda.so.1. No call has a
// deadline: a driver whose device has failed may never return.

namespace millrace::pipeline {

struct CudaDriverFacts {
  std::string library = {};  // the file, as it was loaded
  int version = 0;           // the newest CUDA that the driver serves: 12040 is 12.4
  int num_devices = 0;
};

// Loads the driver and initialises it.
//   FAILED_PRECONDITION  no such library, an unsupported version, a missing function, no device, or
//                        a driver that does not start; the message has the driver's error
//   INTERNAL             the driver does not tell the number of its devices
absl::StatusOr<CudaDriverFacts> LoadCudaDriver();

struct CudaDeviceFacts {
  std::string name = {};
  uint64_t memory_bytes = 0;
  int capability = 0;            // compute capability: 90 is 9.0
  std::string pci_address = {};  // as the system writes it: "0000:3b:00.0"
};

// Needs no context, and so no memory of the device.
//   FAILED_PRECONDITION  there is no driver
//   INTERNAL             the driver's error
absl::StatusOr<CudaDeviceFacts> CudaDeviceFactsOf(int ordinal);

// True if the device `from` may write to the memory of the device `to` without the host's.
//   FAILED_PRECONDITION, INTERNAL  as above
absl::StatusOr<bool> CudaPeersAreDirect(int from, int to);

// A device with memory of its own and page-locked memory of the host, `bytes` of each, and a stream
// for copies between them. Begin... issues one copy of all bytes and returns; Wait waits for the
// copies that were begun. Thread-compatible.
//   INTERNAL  of any of them: the driver's error
class CudaCopier {
 public:
  virtual ~CudaCopier() = default;

  virtual std::span<std::byte> host() = 0;
  virtual absl::Status BeginToDevice() = 0;
  virtual absl::Status BeginToHost() = 0;
  // From this device's memory to the peer's. Goes through the host unless AllowPeer was called.
  virtual absl::Status BeginToPeer(CudaCopier& peer) = 0;
  // Lets this device reach the peer's memory. REQUIRES: CudaPeersAreDirect, and not called before
  // for this peer.
  virtual absl::Status AllowPeer(CudaCopier& peer) = 0;
  virtual absl::Status Wait() = 0;
};

// Makes the device's context, which takes some 300 MB of it.
//   FAILED_PRECONDITION  there is no driver
//   INVALID_ARGUMENT     there is no device of that ordinal
//   RESOURCE_EXHAUSTED   the device or the host has no memory
//   INTERNAL             the driver's error
absl::StatusOr<std::unique_ptr<CudaCopier>> MakeCudaCopier(int ordinal, size_t bytes);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CUDA_PROBE_H_
