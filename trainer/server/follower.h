#ifndef MILLRACE_TRAINER_SERVER_FOLLOWER_H_
#define MILLRACE_TRAINER_SERVER_FOLLOWER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "trainer/server/node.h"

namespace millrace::trainer {

// A server other than the first. Workers stage their gradients here before they claim them at the
// first server, which then says in which order they are applied, or that they are dropped. So all
// servers apply the same gradients in the same order, and one whose worker dies is applied by all
// or by none.
class Follower final : public ServerNode {
 public:
  using ServerNode::ServerNode;

  // Connects to the first server; blocks, for TrainOptions::start_timeout at most. Call it once,
  // before Run.
  absl::Status Follow();

 private:
  using Key = std::tuple<uint32_t, uint64_t, uint64_t>;  // worker, life, number

  absl::Status OnHello(int client, const wire::Hello& hello) override;
  absl::Status OnMessage(int client, const wire::Header& header, std::string payload) override;
  void OnGone(const Peer& peer, const absl::Status& why) override;
  void OnTick() override;
  void OnStop() override;

  void OnDecision(const wire::Header& header);
  void OnApply(const wire::Header& header);
  void OnGoneWorker(const wire::PushId& worker);
  absl::Status Stage(int client, const wire::Header& header, const std::string& payload);
  // Answers those that wait for a version.
  void Answer();

  int link_ = 0;  // the connection to the first server
  std::map<Key, TensorSet> staged_;
  std::map<int, uint64_t> pulls_;     // the version that a client waits for
  std::optional<uint64_t> snapshot_;  // the version whose tensors are kept for the chief
  std::string tensors_;               // these
  std::optional<uint64_t> wanted_;    // the version that the chief waits for
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_FOLLOWER_H_
