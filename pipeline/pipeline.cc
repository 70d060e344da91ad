#include "pipeline/pipeline.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/executor_internal.h"
#include "pipeline/optimizer_internal.h"
#include "readers/record_source.h"

namespace millrace::pipeline {
namespace {

absl::StatusOr<readers::Compression> ParseCompression(const std::string& name) {
  using readers::Compression;
  if (name.empty() || name == "auto") return Compression::kAuto;
  if (name == "none") return Compression::kNone;
  if (name == "gzip") return Compression::kGzip;
  if (name == "zlib") return Compression::kZlib;
  return absl::InvalidArgumentError(
      absl::StrCat("compression \"", name, "\" is none of auto, none, gzip, zlib"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Open(const Plan& plan,
                                                         std::shared_ptr<Context> context,
                                                         const OpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(context->CheckNotForked());
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  MILLRACE_ASSIGN_OR_RETURN(PhysicalPlan physical, BuildPhysicalPlan(plan));
  MILLRACE_ASSIGN_OR_RETURN(const readers::Compression compression,
                            ParseCompression(physical.sources[0].compression));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> files,
                            readers::ExpandFiles(physical.sources[0].file_patterns));
  readers::RecordSourceOptions source_options;
  source_options.compression = compression;
  source_options.verify_crc = physical.sources[0].verify_crc;
  if (physical.sources[0].max_record_bytes != 0) source_options.max_record_bytes = physical.sources[0].max_record_bytes;
  source_options.index_folder = options.index_folder;
  source_options.threads = context->workers().num_threads();
  source_options.progress = options.index_progress;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<readers::RecordSource> source,
                            readers::RecordSource::Open(std::move(files), source_options));
  return OpenPhysical(std::move(physical), std::move(source), std::move(context), options);
}

}  // namespace millrace::pipeline
