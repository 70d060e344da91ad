#ifndef MILLRACE_COLLECTIVES_MESSAGES_EXCHANGE_H_
#define MILLRACE_COLLECTIVES_MESSAGES_EXCHANGE_H_

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "collectives/messages/transport.h"

namespace millrace::collectives {

class Exchange;

// The messages of one operation: its coroutine awaits them, its owner polls. After a message has
// failed the coroutine is not resumed: its owner ends it. Thread-compatible.
class Channel {
 public:
  Channel(Transport& transport, uint32_t tag) : transport_(transport), tag_(tag) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }

  // Resumes the coroutine as long as the messages that it awaits have ended; does not wait. True if
  // it was resumed.
  bool Progress();
  // A peer whose message the coroutine awaits; -1: none.
  int AwaitedPeer() const;
  // OK until a message fails: from then on the ranks of the group are not in step.
  const absl::Status& failure() const { return failure_; }
  // Gives up all messages; their exchanges can no longer be used.
  void Cancel();

 private:
  friend class Exchange;

  Transport& transport_;
  const uint32_t tag_;
  Exchange* awaited_ = nullptr;  // the exchange that `waiting_` awaits
  std::coroutine_handle<> waiting_;
  absl::Status failure_;
  std::vector<Exchange*> exchanges_;  // all that exist
};

// Some messages of a channel, awaited together. Their memory must stay until they have ended or
// this object is destroyed, which gives up the unfinished ones. After it was awaited it may be used
// again.
class Exchange {
 public:
  explicit Exchange(Channel& channel) : channel_(channel) { channel.exchanges_.push_back(this); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  // Begin a message. Empty data has no message: both sides know the sizes. A failure is the
  // channel's.
  void Send(std::span<const std::byte> data, int peer);
  void Receive(std::span<std::byte> data, int peer);

  // co_await x.Ended() resumes when all messages have ended well.
  struct Awaiter {
    Exchange* exchange;

    bool await_ready() const { return exchange->Poll(); }
    void await_suspend(std::coroutine_handle<> waiting) const {
      exchange->channel_.awaited_ = exchange;
      exchange->channel_.waiting_ = waiting;
    }
    void await_resume() const {}
  };
  Awaiter Ended() { return {this}; }

 private:
  friend class Channel;
  struct Message {
    Transport::Id id;
    int peer;
  };

  // True if all messages have ended well.
  bool Poll();
  void Cancel();
  void Begun(const absl::StatusOr<Transport::Id>& id, int peer);
  void Fail(const absl::Status& status, int peer);

  Channel& channel_;
  std::vector<Message> messages_;  // messages that have not ended
  size_t next_ = 0;                // the message to test next
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_EXCHANGE_H_
