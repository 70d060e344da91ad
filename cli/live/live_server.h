#ifndef MILLRACE_CLI_LIVE_LIVE_SERVER_H_
#define MILLRACE_CLI_LIVE_LIVE_SERVER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace millrace::cli {

// Answers each connection to a Unix socket of this user's folder (LiveFolder) with a text, and
// closes it. It has one thread, which sleeps until somebody asks, so that nothing is done for
// nobody; a client that does not read is dropped after a second, and holds up neither the program
// nor other clients. Thread-compatible.
class LiveServer {
 public:
  // Makes a text; called on the server's thread.
  using Source = std::function<std::string()>;

  // Begins to answer, in the folder, under this process's number and the name `name` (NameOfFile).
  //   NOT_FOUND           there is no place for the folder
  //   PERMISSION_DENIED   the folder is not safe
  //   RESOURCE_EXHAUSTED  no thread or file descriptor
  //   other               the socket cannot be made
  static absl::StatusOr<std::unique_ptr<LiveServer>> Start(std::string_view folder,
                                                           std::string_view name, Source source);
  // Removes the socket.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  // A connection whose answer is on its way.
  struct Client {
    UniqueFd socket;
    std::string text;
    size_t sent = 0;
    Clock::time_point since;
  };

  LiveServer(std::string path, Source source)
      : path_(std::move(path)), source_(std::move(source)) {}
  absl::Status Listen(const std::string& made_at);
  void StartThread();
  void Run();
  void Accept();
  // Sends as much as the client takes. Returns false once the client is done with.
  static bool Send(Client& client);
  void SendAll();

  const std::string path_;
  const Source source_;
  UniqueFd listening_;
  UniqueFd stop_;                // readable: the thread is to end
  std::vector<Client> clients_;  // of the thread
  std::thread thread_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_LIVE_SERVER_H_
