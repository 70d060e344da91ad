#ifndef MILLRACE_CAPI_SOURCE_SOURCE_H_
#define MILLRACE_CAPI_SOURCE_SOURCE_H_

#include <memory>

#include "capi/millrace.h"
#include "pipeline/memory_records.h"
#include "pipeline/push_source.h"

struct mr_memory {
  std::shared_ptr<const millrace::pipeline::MemoryRecords> records;
};

struct mr_push {
  std::shared_ptr<millrace::pipeline::PushSource> source;
};

#endif  // MILLRACE_CAPI_SOURCE_SOURCE_H_
