#ifndef MILLRACE_CAPI_BATCH_BATCH_H_
#define MILLRACE_CAPI_BATCH_BATCH_H_

#include <atomic>
#include <cstdint>

#include "capi/millrace.h"
#include "pipeline/batch.h"

struct mr_batch {
  // Any holder -> the one that releases last, acquire and release.
  std::atomic<uint64_t> holders{1};
  millrace::pipeline::Batch batch;  // constant from its delivery on
};

#endif  // MILLRACE_CAPI_BATCH_BATCH_H_
