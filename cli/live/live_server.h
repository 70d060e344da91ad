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
#include "cli/live/tracer.h"

namespace millrace::cli {

// Answers each connection to a Unix socket of this user's folder (LiveFolder) with a text, and
// closes it. A client asks by a line: a TraceRequest, which is answered when the time of the trace
// is over, or any other one for the figures; so does a client that says nothing for 100 ms. A text
// that begins with "error: " says why there is no trace.
//
// It has one thread, which sleeps until somebody asks, so that nothing is done for nobody; a client
// that does not read is dropped after a second, and holds up neither the program nor other clients.
// Thread-compatible.
class LiveServer {
 public:
  // Makes a text; called on the server's thread.
  using Source = std::function<std::string()>;

  // Begins to answer, in the folder, under this process's number and the name `name` (NameOfFile).
  // `source` has the figures.
  //   NOT_FOUND           there is no place for the folder
  //   PERMISSION_DENIED   the folder is not safe
  //   RESOURCE_EXHAUSTED  no thread or file descriptor
  //   other               the socket cannot be made
  static absl::StatusOr<std::unique_ptr<LiveServer>> Start(std::string_view folder,
                                                           std::string_view name, Source source,
                                                           Tracer tracer = {});
  // Removes the socket.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kAsks, kAwaitsTrace, kTakes };
  // A connection.
  struct Client {
    UniqueFd socket;
    Stage stage = Stage::kAsks;
    Clock::time_point end;  // of the stage
    std::string asked = {};
    std::string text = {};  // the answer
    size_t sent = 0;        // bytes of it
  };

  LiveServer(std::string path, Source source, Tracer tracer)
      : path_(std::move(path)), source_(std::move(source)), tracer_(std::move(tracer)) {}
  absl::Status Listen(const std::string& made_at);
  void StartThread();
  void Run();
  // Milliseconds until the first stage ends; -1: there is no client.
  int TimeLeft() const;
  void Accept();
  void DropOne();

  // These return false once the client is done with.
  bool GoOn(Client& client);
  bool Hear(Client& client);
  bool Answer(Client& client);
  bool BeginTrace(std::chrono::nanoseconds time, Client& client);
  bool EndTrace(Client& client);
  bool Give(const Source& source, Client& client);
  // Sends as much as the client takes.
  static bool Send(Client& client);

  const std::string path_;
  const Source source_;
  const Tracer tracer_;
  UniqueFd listening_;
  UniqueFd stop_;  // readable: the thread is to end
  // Of the thread.
  std::vector<Client> clients_;
  bool traces_ = false;  // true if one of them waits for a trace
  std::thread thread_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_LIVE_SERVER_H_
