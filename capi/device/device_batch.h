#ifndef MILLRACE_CAPI_DEVICE_DEVICE_BATCH_H_
#define MILLRACE_CAPI_DEVICE_DEVICE_BATCH_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "capi/millrace_device.h"
#include "pipeline/device_feed.h"

struct mr_device_batch {
  // Any holder -> the one that releases last, acquire and release.
  std::atomic<uint64_t> holders{1};
  std::optional<millrace::pipeline::DeviceBatch> batch;  // there, and constant, from delivery on
  int32_t device = 0;                                    // CUDA's ordinal
};

#endif  // MILLRACE_CAPI_DEVICE_DEVICE_BATCH_H_
