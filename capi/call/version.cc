#include <cstdint>

#include "capi/millrace.h"

uint32_t mr_abi_version(void) { return MR_ABI_MAJOR << 16 | MR_ABI_MINOR; }

const char* mr_version_text(void) { return MILLRACE_VERSION; }
