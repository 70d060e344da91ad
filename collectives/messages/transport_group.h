#ifndef MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_GROUP_H_
#define MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_GROUP_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collectives/messages/alarms.h"
#include "collectives/messages/algorithms.h"
#include "collectives/messages/transport.h"
#include "collectives/messages/transport_communicator.h"

namespace millrace::collectives {

class TransportGroup;

// One call of this rank on its way over messages.
class Operation {
 public:
  Operation(const Request& request, const absl::Status& arguments)
      : request_(request), arguments_(arguments) {}
  // A split: the ranks tell each other their choices.
  Operation(const Transport::Choice& choice, const absl::Status& arguments)
      : arguments_(arguments), choice_(choice) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  // An operation that is still on its way (an exception left its wait) breaks the group.
  ~Operation();

  bool ended() const { return outcome_.has_value(); }
  const absl::Status& outcome() const { return *outcome_; }
  // The choices by rank, once a split has ended well.
  std::span<const Transport::Choice> choices() const { return choices_; }
  std::string_view name() const;
  // Pending::AwaitedPeer.
  int AwaitedPeer() const { return channel_.has_value() ? channel_->AwaitedPeer() : -1; }

 private:
  friend class TransportGroup;

  bool point_to_point() const {
    return request_.kind == Collective::kSend || request_.kind == Collective::kRecv;
  }

  const Request request_;
  const absl::Status arguments_;
  const std::optional<Transport::Choice> choice_;  // the choice of a split
  std::vector<Transport::Choice> choices_;
  TransportGroup* group_ = nullptr;  // the group while the operation is on its way
  int64_t number_ = 0;               // the number among the group's collective calls
  std::optional<std::chrono::steady_clock::time_point> waited_since_;
  std::optional<Channel> channel_;
  std::optional<OperationContext> context_;
  std::optional<Task> task_;  // uses the two above
  std::optional<absl::Status> outcome_;
};

// All groups of one rank that were split from each other. A wait in one of them makes progress on
// the operations of all: a peer may wait for any of them first.
using GroupFamily = std::vector<TransportGroup*>;

// A rank's part in a group: the operations that are on their way, and whether the group can still
// be used. Lives until the last group that was split from it is gone, because these also hear an
// abort of the group. Thread-compatible.
class TransportGroup {
 public:
  TransportGroup(std::unique_ptr<Transport> transport, const TransportOptions& options,
                 std::shared_ptr<TransportGroup> parent);
  ~TransportGroup();

  Transport& transport() { return *transport_; }
  const TransportOptions& options() const { return options_; }

  // Begins `operation`, which stays where it is until it has ended.
  void Begin(Operation& operation);
  // True if `operation` has ended. `limits` are those of the wait that calls it.
  bool Poll(Operation& operation, const WaitLimits& limits);
  absl::Status Wait(Operation& operation, const WaitLimits& limits);

  // Ends all operations, here and on the other ranks, also those of the groups above it.
  void Abort(const absl::Status& reason);
  // Makes the group unusable and tells the other ranks.
  void Fail(const absl::Status& status);
  // Communicator::Leave.
  void Leave(const absl::Status& reason);
  // Communicator::Heard.
  absl::Status Heard();
  // OK as long as the group can be used.
  const absl::Status& broken() const { return broken_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Finds out which ranks are there, once a wait has taken too long on one of them.
  struct RollCall {
    std::string text;       // the text of the rank that asked first
    Clock::time_point end;  // ranks that have not answered by then are missing
  };

  uint32_t NextTag(Operation& operation);
  Task RunCall(Operation& operation);
  std::chrono::nanoseconds LeastPatience() const;
  // Resumes the operations. True if one made progress.
  bool Progress();
  // Progress of the whole family; listens for alarms if there was none.
  bool ProgressFamily();
  // One turn of a wait for `operation`. True if there was progress or the operation has ended.
  bool Step(Operation& operation, const WaitLimits& limits);
  // Resumes one operation.
  bool Resume(Operation& operation);
  void End(Operation& operation, const absl::Status& outcome);
  void Fail(const absl::Status& status, const absl::Status& alarm,
            int64_t first_missed = Alarm::kNone);
  void EndAborted(const absl::Status& status);
  void FailExplained(const absl::Status& status);
  // The first collective call that this rank has not ended.
  int64_t FirstUnended() const;
  // Fails if an operation needs a rank that has left.
  void CheckLeavers();
  void EndWhatHasCome();
  void Listen();
  void Hear();
  void HearAll();
  void HearAncestors();
  void HearParent();
  void CheckTime(const Operation& operation, std::chrono::nanoseconds timeout);
  void CheckWatch(const Operation& operation, const WaitLimits& limits);
  void CallTheRoll(std::string text, std::chrono::nanoseconds patience);
  void CheckRollCall();
  absl::Status RollCallOutcome() const;

  const TransportOptions options_;
  const std::shared_ptr<TransportGroup> parent_;  // null at the top
  const std::shared_ptr<GroupFamily> family_;
  std::unique_ptr<ScratchPool> scratch_;
  std::unique_ptr<Alarms> alarms_;  // its memory outlives the transport
  std::unique_ptr<Transport> transport_;
  std::vector<Operation*> running_;  // operations on their way, in the order of the calls
  int64_t collectives_ = 0;          // collective calls begun so far
  std::vector<uint32_t> sent_;       // by peer: messages begun so far
  std::vector<uint32_t> received_;
  std::optional<RollCall> roll_call_;
  std::vector<Alarm> leavers_;
  absl::Status broken_;
  bool aborted_ = false;  // true if the groups split from this one end too
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_TRANSPORT_GROUP_H_
