#ifndef MILLRACE_PIPELINE_SOURCE_MEMORY_H_
#define MILLRACE_PIPELINE_SOURCE_MEMORY_H_

#include <memory>
#include <string>

#include "pipeline/memory_records.h"
#include "readers/record_source.h"

namespace millrace::pipeline {

// The records as a source; `stage` is for messages.
std::unique_ptr<readers::RecordSource> MakeMemorySource(
    std::shared_ptr<const MemoryRecords> records, const std::string& stage);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_SOURCE_MEMORY_H_
