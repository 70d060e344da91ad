#ifndef MILLRACE_CLI_FLAGS_COMPRESSION_H_
#define MILLRACE_CLI_FLAGS_COMPRESSION_H_

#include <string>

#include "cli/flags/command_line.h"
#include "readers/record.h"

namespace millrace::cli {

// Adds --compression (or a flag of another name), which sets `compression` of the output;
// `compression` must outlive the command.
void AddCompressionFlag(Command& command, readers::Compression& compression,
                        const std::string& name = "--compression",
                        const std::string& about = "none, gzip, zlib or zstd");

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_FLAGS_COMPRESSION_H_
