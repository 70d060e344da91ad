#ifndef MILLRACE_CLI_DOCTOR_CHECKS_H_
#define MILLRACE_CLI_DOCTOR_CHECKS_H_

#include <span>

#include "cli/doctor/finding.h"
#include "cli/doctor/host.h"

// The checks. Each looks at the host and judges it; docs/doctor.md has the limits and their
// reasons. None measures: that is done before (doctor.h).

namespace millrace::cli::doctor {

// compute_checks.cc
Findings CheckCores(const Host& host);
Findings CheckVectors(const Host& host);
Findings CheckMemory(const Host& host);
Findings CheckHugePages(const Host& host);
Findings CheckNuma(const Host& host);
Findings CheckClock(const Host& host);

// limit_checks.cc
Findings CheckLimits(const Host& host);
Findings CheckSharedMemory(const Host& host);
Findings CheckMpi(const Host& host);

// rate_checks.cc
Findings CheckDecoding(const Host& host);
Findings CheckData(const Host& host);

// device_checks.cc
Findings CheckDriver(const Host& host);
Findings CheckDevices(const Host& host);
Findings CheckCopies(const Host& host);
Findings CheckPeers(const Host& host);

// bus_checks.cc
Findings CheckPcie(const Host& host);
Findings CheckIommu(const Host& host);
Findings CheckAcs(const Host& host);

// library_checks.cc
Findings CheckRuntime(const Host& host);
Findings CheckCudnn(const Host& host);
Findings CheckNccl(const Host& host);

// All of them, in the order of the output.
using Check = Findings (*)(const Host& host);
std::span<const Check> AllChecks();

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_CHECKS_H_
