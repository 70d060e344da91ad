#ifndef MILLRACE_TRAINER_SERVER_FIRST_SERVER_H_
#define MILLRACE_TRAINER_SERVER_FIRST_SERVER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/server/ledger.h"
#include "trainer/server/node.h"

namespace millrace::trainer {

// The server with number 0. It decides which gradients count, tells the other servers, and answers
// each worker when the weights that it is to go on with are there.
class FirstServer final : public ServerNode {
 public:
  FirstServer(const TrainOptions& options, const JobFile& job, const Model& model,
              const ServerCluster& cluster, std::vector<size_t> parameters,
              std::unique_ptr<collectives::MessageServer> server);

 private:
  absl::Status OnHello(int client, const wire::Hello& hello) override;
  absl::Status OnMessage(int client, const wire::Header& header, std::string payload) override;
  void OnGone(const Peer& peer, const absl::Status& why) override;
  void OnTick() override;
  void OnStop() override;

  absl::Status OfChief(int client, const wire::Header& header, const std::string& payload);
  absl::Status OnInit(int client, const wire::Header& header, const std::string& payload);
  absl::Status OnReady(int client);
  absl::Status OnClaim(int client, const wire::Header& header, const std::string& payload);
  absl::Status OnSnapshot(int client);
  absl::Status OnSaved(const wire::Header& header);
  absl::Status OnFailed(int client, const wire::Header& header);

  // Makes a worker that has come one of the training, and tells it where its data begin.
  absl::Status Welcome(int client);
  absl::Status CheckStatistics(const wire::Report& report) const;
  void Carry(const Ruling& ruling);
  void Update(const std::vector<Claim>& claims);
  void CountLoss(const std::vector<Claim>& claims);
  void FollowStatistics(const std::vector<Claim>& claims);
  // Sends the weights, so that the worker goes on.
  void Go(int worker);
  void AnswerWaits();
  void TellServers(const wire::Header& header);
  void CheckStart();
  bool IsAwaited(const Peer& peer);

  Ledger& ledger() { return *ledger_; }

  std::optional<Ledger> ledger_;        // once the chief has brought the beginning
  std::map<int, TensorSet> gradients_;  // those that are claimed, by worker
  std::map<int, uint64_t> waits_;       // the version that a worker waits for
  TensorSet buffers_;                   // the running statistics
  wire::Progress progress_;
  bool has_gone_ = false;  // true once the workers were told to begin
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_FIRST_SERVER_H_
