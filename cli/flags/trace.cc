#include "cli/flags/trace.h"

namespace millrace::cli {

void AddTraceFlags(Command command, TraceFlags& flags) {
  command.Add("--trace", flags.file,
              "Write what workers, reads and the consumer do to this file (Chrome trace format)");
  command.Add("--trace-seconds", flags.seconds, "Seconds from the start that --trace covers")
      .Finite(1e-3, 1e5)
      .ShowDefault();
}

}  // namespace millrace::cli
