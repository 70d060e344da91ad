#ifndef MILLRACE_TRAINER_SERVER_SERVER_LINKS_H_
#define MILLRACE_TRAINER_SERVER_SERVER_LINKS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/message_connection.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/server/cluster.h"
#include "trainer/server/protocol.h"
#include "trainer/server/shard.h"
#include "trainer/train.h"

namespace millrace::trainer {

// A worker's connections to all servers. Thread-compatible. Every call that waits has a limit,
// SilenceLimit without a sign of life. Outcomes of all calls:
//   UNAVAILABLE  a server is lost (collectives::PeerLostOf), or has given this worker up
//   other        the error that has ended the training
class ServerLinks {
 public:
  // All outlive it. `placed` has the parameters of each server.
  ServerLinks(const TrainOptions& options, const ServerCluster& cluster, const Model& model,
              const std::vector<std::vector<size_t>>& placed, uint64_t job_number,
              uint64_t all_bytes_per_weight_byte);
  ~ServerLinks();

  // Connects to all servers. As Greet; the first server welcomes workers once the chief has brought
  // the beginning, and the chief at once.
  absl::Status Connect();
  // The beginning, for workers other than the chief; its only position is this worker's.
  const wire::Start& start() const { return start_; }

  // Brings the beginning, on the chief.
  absl::Status Begin(wire::Start start, const AllTensors& tensors, const std::string& checkpoint);

  // The next three set `weights` to those of the progress's version, or a later one.
  // Says that this worker can begin, and waits until all can.
  absl::StatusOr<wire::Progress> Ready(TensorSet& weights);
  // Brings a gradient of the last weights.
  absl::StatusOr<wire::Progress> Push(const TensorSet& gradient, const wire::Report& report,
                                      TensorSet& weights);
  // Waits until version `until`, or until no update is left.
  absl::StatusOr<wire::Progress> AwaitVersion(uint64_t until, TensorSet& weights);

  // Fetches all tensors of the newest version, on the chief. Returns the first server's words.
  absl::StatusOr<wire::Header> TakeSnapshot(AllTensors& tensors);
  // Says that a checkpoint is durable, on the chief; with `is_last` the training ends for all.
  absl::Status SaySaved(const std::string& checkpoint, bool is_last);
  // Waits for the end of the training. Returns true if it was stopped.
  absl::StatusOr<bool> AwaitEnd();
  // True if the servers have said that the training is over; it may come in place of any answer.
  bool has_ended() const { return has_ended_; }

  // Asks the first server to stop the training, or to let this worker go.
  absl::Status AskToStop() { return Say(wire::STOP); }
  absl::Status Leave() { return Say(wire::LEAVE); }
  // Tells the first server, if it is there, why this worker ends.
  void SayFailed(const absl::Status& why);
  // Says once a second that this worker is alive.
  absl::Status SayAlive();

  // The path of the newest durable checkpoint, as far as this worker knows.
  const std::string& checkpoint() const { return checkpoint_; }

 private:
  absl::Status Say(wire::Kind kind);
  absl::Status Send(int server, const wire::Header& header, std::string_view payload = {});
  // Waits for a message of `kind`; CANCELLED if the training ends instead (has_ended).
  absl::StatusOr<collectives::Message> Await(int server, wire::Kind kind, wire::Header& header);
  absl::StatusOr<wire::Progress> AwaitGo(TensorSet& weights);
  // The error for a connection that broke: that which ends the training, if a server tells it.
  absl::Status Explain(int server, const absl::Status& broken);
  // Takes the end of the training. Returns CANCELLED.
  absl::Status NoteEnd(const wire::Header& header);
  std::string GradientFor(int server, const TensorSet& gradient) const;

  const TrainOptions& options_;
  const ServerCluster& cluster_;
  const std::vector<std::vector<size_t>>& placed_;
  const uint64_t job_number_;
  const std::chrono::nanoseconds limit_;  // without a sign of life; 0: none
  std::vector<uint64_t> payload_bytes_;   // the largest that each server sends
  std::vector<std::unique_ptr<collectives::MessageConnection>> links_;
  wire::Start start_;
  std::string checkpoint_;
  uint64_t life_ = 0;
  uint64_t number_ = 0;   // gradients brought
  uint64_t version_ = 0;  // of the last weights
  bool has_ended_ = false;
  bool is_stopped_ = false;  // of that end
  std::chrono::steady_clock::time_point said_alive_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_SERVER_LINKS_H_
