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

  // Goes on with the coroutine while what it awaits has ended, without waiting. True if it did.
  bool Progress();
  // Whose message, one of them, the coroutine awaits; -1: nobody's.
  int AwaitedPeer() const;
  // OK until a message fails: the group's ranks no longer stand at the same place then.
  const absl::Status& failure() const { return failure_; }
  // Gives up all messages; their exchanges are of no use any more.
  void Cancel();

 private:
  friend class Exchange;

  Transport& transport_;
  const uint32_t tag_;
  Exchange* awaited_ = nullptr;  // by `waiting_`
  std::coroutine_handle<> waiting_;
  absl::Status failure_;
  std::vector<Exchange*> exchanges_;  // all there are
};

// Some messages of a channel, awaited together. Their memory stays until they have ended or this
// object is gone, which gives up those that have not. After it was awaited it may be used again.
class Exchange {
 public:
  explicit Exchange(Channel& channel) : channel_(channel) { channel.exchanges_.push_back(this); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  // Begin a message. Without bytes there is none: both sides know the sizes. A failure is the
  // channel's.
  void Send(std::span<const std::byte> data, int peer);
  void Receive(std::span<std::byte> data, int peer);

  // co_await x.Ended() goes on when all have ended well.
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

  // True: all have ended well.
  bool Poll();
  void Cancel();
  void Begun(const absl::StatusOr<Transport::Id>& id, int peer);
  void Fail(const absl::Status& status, int peer);

  Channel& channel_;
  std::vector<Message> messages_;  // that have not ended
  size_t next_ = 0;                // to ask for
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_EXCHANGE_H_
