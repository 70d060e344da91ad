#ifndef MILLRACE_CLI_LIVE_SERVE_H_
#define MILLRACE_CLI_LIVE_SERVE_H_

#include <functional>
#include <memory>
#include <string>

#include "cli/live/live_server.h"
#include "cli/live/snapshot.h"
#include "cli/live/tracer.h"

namespace millrace::cli {

// Lets `millrace top` ask this process, which works on `file`, for its figures, and for a trace, if
// `tracer` is not empty. Both are called on the server's thread. Returns null if that cannot be: a
// program runs all the same. Then it warns, if `warns` and unless the host has no place for the
// socket.
std::unique_ptr<LiveServer> Serve(const std::string& file, std::function<Snapshot()> source,
                                  Tracer tracer, bool warns);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_SERVE_H_
