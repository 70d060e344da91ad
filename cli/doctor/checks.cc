#include "cli/doctor/checks.h"

namespace millrace::cli::doctor {

std::span<const Check> AllChecks() {
  static constexpr Check kChecks[] = {
      &CheckCores,   &CheckVectors,      &CheckMemory, &CheckHugePages, &CheckNuma, &CheckClock,
      &CheckLimits,  &CheckSharedMemory, &CheckMpi,    &CheckDecoding,  &CheckData, &CheckDriver,
      &CheckDevices, &CheckPcie,         &CheckCopies, &CheckIommu,     &CheckAcs,  &CheckPeers,
      &CheckRuntime, &CheckCudnn,        &CheckNccl,
  };
  return kChecks;
}

}  // namespace millrace::cli::doctor
