#include "collectives/messages/exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::collectives {

bool Channel::Progress() {
  bool moved = false;
  while (awaited_ != nullptr && awaited_->Poll()) {
    awaited_ = nullptr;
    moved = true;
    std::exchange(waiting_, {}).resume();
  }
  return moved;
}

int Channel::AwaitedPeer() const {
  return awaited_ == nullptr || awaited_->messages_.empty() ? -1 : awaited_->messages_.front().peer;
}

void Channel::Cancel() {
  for (Exchange* const exchange : exchanges_) exchange->Cancel();
}

Exchange::~Exchange() {
  Cancel();
  std::erase(channel_.exchanges_, this);
}

void Exchange::Cancel() {
  for (const Message& message : messages_) channel_.transport_.Cancel(message.id);
  messages_.clear();
  if (channel_.awaited_ == this) channel_.awaited_ = nullptr;
}

void Exchange::Send(std::span<const std::byte> data, int peer) {
  if (data.empty() || !channel_.failure_.ok()) return;
  Begun(channel_.transport_.Send(data, peer, channel_.tag_), peer);
}

void Exchange::Receive(std::span<std::byte> data, int peer) {
  if (data.empty() || !channel_.failure_.ok()) return;
  Begun(channel_.transport_.Receive(data, peer, channel_.tag_), peer);
}

void Exchange::Begun(const absl::StatusOr<Transport::Id>& id, int peer) {
  if (!id.ok()) return Fail(id.status(), peer);
  messages_.push_back({*id, peer});
}

void Exchange::Fail(const absl::Status& status, int peer) {
  if (!channel_.failure_.ok()) return;
  channel_.failure_ = Annotate(status, ToStd(absl::StrCat("message with rank ", peer)));
}

// Each test lets the network make progress for all messages, so two tests per call are enough. They
// take turns among the messages, so that a failure is found behind a message that never ends.
bool Exchange::Poll() {
  const absl::Status& failure = channel_.failure_;
  size_t waiting = 0;
  while (failure.ok() && !messages_.empty() && waiting < std::min<size_t>(2, messages_.size())) {
    if (next_ >= messages_.size()) next_ = 0;
    const Message message = messages_[next_];
    const absl::StatusOr<bool> ended = channel_.transport_.Test(message.id);
    if (ended.ok() && !*ended) {
      ++next_;
      ++waiting;
      continue;
    }
    messages_[next_] = messages_.back();
    messages_.pop_back();
    if (!ended.ok()) Fail(ended.status(), message.peer);
  }
  return failure.ok() && messages_.empty();
}

}  // namespace millrace::collectives
