#include "cli/live/serve.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/exit.h"
#include "cli/live/folder.h"
#include "cli/live/live_client.h"

namespace millrace::cli {
namespace {

absl::StatusOr<std::unique_ptr<LiveServer>> Start(const std::string& file,
                                                  std::function<Snapshot()> source, Tracer tracer) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, LiveFolder());
  RemoveStale(folder);  // where nobody calls `top`, they would become many
  return LiveServer::Start(
      folder, NameOfFile(file), [source = std::move(source)] { return ToJson(source()); },
      std::move(tracer));
}

}  // namespace

std::unique_ptr<LiveServer> Serve(const std::string& file, std::function<Snapshot()> source,
                                  Tracer tracer, bool warns) {
  auto server = Start(file, std::move(source), std::move(tracer));
  if (server.ok()) return *std::move(server);
  if (warns && !absl::IsNotFound(server.status())) {
    Warn(absl::StrCat("`millrace top` cannot show this program: ", server.status().message()));
  }
  return nullptr;
}

}  // namespace millrace::cli
