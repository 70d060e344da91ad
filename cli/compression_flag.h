#ifndef MILLRACE_CLI_COMPRESSION_FLAG_H_
#define MILLRACE_CLI_COMPRESSION_FLAG_H_

#include "cli/command_line.h"
#include "readers/record.h"

namespace millrace::cli {

// Adds --compression, which sets `compression` of what is written; `compression` must outlive the
// command.
void AddCompressionFlag(Command& command, readers::Compression& compression);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_COMPRESSION_FLAG_H_
