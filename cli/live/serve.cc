#include "cli/live/serve.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/exit.h"
#include "cli/live/folder.h"

namespace millrace::cli {
namespace {

absl::StatusOr<std::unique_ptr<LiveServer>> Start(const std::string& file,
                                                  std::function<Snapshot()> source) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, LiveFolder());
  return LiveServer::Start(folder, NameOfFile(file),
                           [source = std::move(source)] { return ToJson(source()); });
}

}  // namespace

std::unique_ptr<LiveServer> Serve(const std::string& file, std::function<Snapshot()> source) {
  auto server = Start(file, std::move(source));
  if (server.ok()) return *std::move(server);
  if (!absl::IsNotFound(server.status())) {
    Warn(absl::StrCat("`millrace top` cannot show this program: ", server.status().message()));
  }
  return nullptr;
}

}  // namespace millrace::cli
