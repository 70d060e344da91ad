#ifndef MILLRACE_TRAINER_SERVER_NODE_H_
#define MILLRACE_TRAINER_SERVER_NODE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/message_server.h"
#include "trainer/job/job.h"
#include "trainer/model/model.h"
#include "trainer/optimizer/schedule.h"
#include "trainer/server/cluster.h"
#include "trainer/server/protocol.h"
#include "trainer/server/shard.h"
#include "trainer/train.h"

namespace millrace::trainer {

// The end of a server's run that went well.
struct ServerEnd {
  bool is_stopped = false;
  std::string checkpoint;  // path of the newest checkpoint, on the chief's host
};

// What the first server and those that follow it have in common: a shard of the parameters, the
// connections, and the signs of life. One thread does everything. Thread-compatible.
class ServerNode {
 public:
  // All outlive it.
  ServerNode(const TrainOptions& options, const JobFile& job, const Model& model,
             const ServerCluster& cluster, std::vector<size_t> parameters,
             std::unique_ptr<collectives::MessageServer> server);
  virtual ~ServerNode() = default;

  // Serves until the training is over. The outcomes are TrainOnServers'.
  absl::StatusOr<ServerEnd> Run();

 protected:
  using Clock = std::chrono::steady_clock;

  struct Peer {
    bool is_server = false;
    int index = 0;      // of the worker, or of the server
    uint64_t life = 0;  // of a worker
    Clock::time_point heard;

    bool is_chief() const { return !is_server && index == 0; }
    // "worker 2".
    std::string name() const;
  };

  // Answers a HELLO that belongs to this training. An error refuses it.
  virtual absl::Status OnHello(int client, const wire::Hello& hello) = 0;
  // Takes a message of a peer. An error ends the connection.
  virtual absl::Status OnMessage(int client, const wire::Header& header, std::string payload) = 0;
  // A peer is gone, by its own doing or by this server's.
  virtual void OnGone(const Peer& peer, const absl::Status& why) = 0;
  // Called several times a second.
  virtual void OnTick() = 0;
  // Called once, if the process was asked to stop.
  virtual void OnStop() = 0;

  Peer& Admit(int client, bool is_server, int index);
  // The connection of a worker, or of a server; 0: none.
  int ClientOf(bool is_server, int index) const;
  void Send(int client, const wire::Header& header, std::string payload = {});
  // Tells a peer why it is sent away, and forgets it.
  void SendAway(int client, const absl::Status& why);
  // Ends this run with an error, and those of all peers.
  void Fail(const absl::Status& why);
  // Ends this run.
  void End(bool is_stopped);
  // True if `peer` has said nothing for longer than SilenceLimit.
  bool IsSilent(const Peer& peer) const;
  // How long this server has run.
  std::chrono::nanoseconds age() const { return Clock::now() - begun_; }

  // Takes the beginning that the chief brings, and answers.
  absl::Status Begin(int client, const wire::Start& start, std::string_view payload);
  bool has_begun() const { return schedule_.has_value(); }
  // Makes the next update.
  void Apply(int64_t rows, const std::vector<const TensorSet*>& gradients);

  void Print(const std::string& line) const;
  void Warn(const std::string& line) const;

  const TrainOptions& options_;
  const JobFile& job_;
  const Model& model_;
  const ServerCluster& cluster_;
  const uint64_t job_number_;
  Shard shard_;
  wire::Start start_;  // as the chief has brought it
  std::optional<Schedule> schedule_;
  uint64_t version_ = 0;  // updates done
  std::string checkpoint_;
  const std::unique_ptr<collectives::MessageServer> server_;
  std::map<int, Peer> peers_;  // by client

 private:
  void AwaitWorkers();
  void Handle(collectives::MessageServer::Event& event);
  absl::Status HandleHello(int client, const wire::Header& header);
  void Tick();
  void SayAlive();
  bool IsStopWanted() const;

  const Clock::time_point begun_ = Clock::now();
  Clock::time_point ticked_ = begun_;
  Clock::time_point said_alive_ = begun_;
  bool has_stopped_ = false;
  bool is_over_ = false;
  absl::Status failure_;
  ServerEnd end_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_NODE_H_
