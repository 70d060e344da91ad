#include "collectives/messages/transport_group.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/core/reduce.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Tags: collective calls count through the lower half, messages of a pair through the upper one.
// Among as many calls as that, at most a few are on their way at once.
constexpr uint32_t kCollectiveTags = 16384;
constexpr uint32_t kPairTags = Alarms::kTag - kCollectiveTags;

// How long the others have to answer the roll call. They answer within one turn of their waiting
// loop, unless the machine is crowded, which is more likely the more ranks there are.
constexpr nanoseconds kLeastPatience = milliseconds(100);
constexpr nanoseconds kPatiencePerRank = milliseconds(10);
constexpr nanoseconds kMostPatience = milliseconds(500);

// The longest sleep of a rank: alarms and other groups' messages do not end it.
constexpr nanoseconds kLongestIdle = milliseconds(10);

uint64_t Hash(const TransportOptions& options) {
  uint64_t hash = 0;
  for (const size_t value : {options.piece_bytes, options.round_bytes, options.gather_bytes}) {
    hash = hash * 0x9E3779B97F4A7C15 + value;
  }
  return hash;
}

absl::Status NoMemory(std::string_view call, const std::exception& error) {
  return absl::ResourceExhaustedError(absl::StrCat(ToAbsl(call), ": ", error.what()));
}

}  // namespace

Operation::~Operation() {
  if (group_ != nullptr) group_->Fail(absl::CancelledError("a wait was left"));
}

std::string_view Operation::name() const {
  return choice_.has_value() ? "Split" : Name(request_.kind);
}

TransportGroup::TransportGroup(std::unique_ptr<Transport> transport,
                               const TransportOptions& options,
                               std::shared_ptr<TransportGroup> parent)
    : options_(options),
      parent_(std::move(parent)),
      family_(parent_ != nullptr ? parent_->family_ : std::make_shared<GroupFamily>()),
      scratch_(std::make_unique<ScratchPool>()),
      alarms_(std::make_unique<Alarms>(*transport)),
      transport_(std::move(transport)),
      sent_(transport_->size()),
      received_(transport_->size()) {
  family_->push_back(this);
}

TransportGroup::~TransportGroup() {
  std::erase(*family_, this);
  if (broken_.ok() || transport_->capabilities().cancel_is_final) return;
  // The network may still write to this memory.
  (void)scratch_.release();
  (void)alarms_.release();
}

uint32_t TransportGroup::NextTag(Operation& operation) {
  const Request& request = operation.request_;
  if (request.kind == Collective::kSend) {
    return kCollectiveTags + sent_[request.peer]++ % kPairTags;
  }
  if (request.kind == Collective::kRecv) {
    return kCollectiveTags + received_[request.peer]++ % kPairTags;
  }
  operation.number_ = collectives_++;
  return static_cast<uint32_t>(operation.number_ % kCollectiveTags);
}

void TransportGroup::Begin(Operation& operation) {
  const bool alone = operation.point_to_point() || operation.request_.agreed;
  if (alone && !operation.arguments_.ok()) operation.outcome_ = operation.arguments_;
  if (!broken_.ok()) operation.outcome_ = broken_;
  if (operation.ended()) {
    // The peers begin an operation that this rank does not.
    if (operation.request_.agreed && broken_.ok()) Fail(operation.arguments_);
    return;
  }
  operation.group_ = this;
  try {
    operation.channel_.emplace(*transport_, NextTag(operation));
    operation.context_.emplace(
        OperationContext{*operation.channel_, operation.request_, options_, *scratch_});
    operation.task_.emplace(RunCall(operation));
    running_.push_back(&operation);
    operation.task_->Begin();
  } catch (const std::exception& error) {
    const absl::Status status = NoMemory(operation.name(), error);
    End(operation, status);
    return Fail(status);
  }
  Progress();
  if (!leavers_.empty()) EndWhatHasCome();
}

Task TransportGroup::RunCall(Operation& operation) {
  const Request& request = operation.request_;
  const OperationContext& context = *operation.context_;
  Channel& channel = *operation.channel_;
  if (operation.choice_.has_value()) {
    const CallSummary mine = SummarizeSplit(operation.arguments_);
    MILLRACE_CO_RETURN_IF_ERROR(co_await AgreeOnCall(channel, mine, operation.arguments_));
    operation.choices_.resize(transport_->size());
    operation.choices_[transport_->rank()] = *operation.choice_;
    co_return co_await GatherBlocks(channel, std::as_writable_bytes(std::span(operation.choices_)));
  }
  if (request.kind == Collective::kSend) co_return co_await RunSend(context);
  if (request.kind == Collective::kRecv) co_return co_await RunReceive(context);
  if (!request.agreed || request.kind == Collective::kBarrier) {
    CallSummary mine = Summarize(request, operation.arguments_);
    mine.options = Hash(options_);
    MILLRACE_CO_RETURN_IF_ERROR(co_await AgreeOnCall(channel, mine, operation.arguments_));
  }
  if (request.kind == Collective::kBarrier) co_return absl::OkStatus();
  co_return co_await RunOperation(context);
}

bool TransportGroup::Progress() {
  bool moved = false;
  for (size_t i = 0; i < running_.size();) {
    Operation& operation = *running_[i];
    moved |= Resume(operation);
    if (!broken_.ok()) return true;
    const absl::Status failure = operation.channel_->failure();
    if (failure.ok() && !operation.task_->ended()) {
      ++i;
      continue;
    }
    moved = true;
    const absl::Status outcome = failure.ok() ? operation.task_->outcome() : failure;
    if (!failure.ok() || !(outcome.ok() || absl::IsInvalidArgument(outcome))) {
      FailExplained(outcome);
      return true;
    }
    End(operation, outcome);
  }
  return moved;
}

// An exception leaves the peers waiting for this rank.
bool TransportGroup::Resume(Operation& operation) {
  try {
    return operation.channel_->Progress();
  } catch (const std::exception& error) {
    Fail(NoMemory(operation.name(), error));
    return true;
  }
}

// Gives up the messages that the operation still has on their way.
void TransportGroup::End(Operation& operation, const absl::Status& outcome) {
  const bool given_up = operation.task_.has_value() && !operation.task_->ended();
  if (given_up && !transport_->capabilities().cancel_is_final) {
    operation.channel_->Cancel();
    operation.task_->LeaveMemory();
  }
  operation.task_.reset();
  operation.context_.reset();
  operation.channel_.reset();
  operation.outcome_ = outcome;
  operation.group_ = nullptr;
  std::erase(running_, &operation);
}

void TransportGroup::Fail(const absl::Status& status) {
  Fail(status, Annotate(status, ToStd(absl::StrCat("rank ", transport_->rank()))));
}

void TransportGroup::Fail(const absl::Status& status, const absl::Status& alarm,
                          int64_t first_missed) {
  if (!broken_.ok()) return;
  broken_ = status;
  alarms_->Raise(alarm, first_missed);
  while (!running_.empty()) End(*running_.back(), status);
}

// A peer that has left may have told the reason before.
void TransportGroup::FailExplained(const absl::Status& status) {
  HearAncestors();
  Fail(roll_call_.has_value() ? RollCallOutcome() : status);
}

int64_t TransportGroup::FirstUnended() const {
  int64_t first = collectives_;
  for (const Operation* const operation : running_) {
    if (!operation->point_to_point()) first = std::min(first, operation->number_);
  }
  return first;
}

// Peers in an operation that this rank has ended do not need it any more.
void TransportGroup::Leave(const absl::Status& reason) {
  if (!broken_.ok()) return;
  broken_ = reason;
  alarms_->Raise(reason, FirstUnended());
  while (!running_.empty()) End(*running_.back(), reason);
}

// A third rank that hears of it from this rank may still be in calls that this rank and the leaver
// have ended.
void TransportGroup::CheckLeavers() {
  for (const Alarm& leaver : leavers_) {
    const bool needed = std::ranges::any_of(running_, [&leaver](const Operation* operation) {
      return operation->point_to_point() ? operation->request_.peer == leaver.from
                                         : operation->number_ >= leaver.first_missed;
    });
    if (needed) return Fail(leaver.status, leaver.status, FirstUnended());
  }
}

// Messages that a leaver had sent before its alarm have arrived before it.
void TransportGroup::EndWhatHasCome() {
  while (broken_.ok() && Progress()) {
  }
  CheckLeavers();
}

void TransportGroup::Abort(const absl::Status& reason) {
  for (TransportGroup* group = this; group != nullptr; group = group->parent_.get()) {
    const absl::Status status = absl::CancelledError(
        absl::StrCat("aborted by rank ", group->transport_->rank(), ": ", reason.ToString()));
    group->EndAborted(status);
  }
  transport_->Abort(reason);
}

void TransportGroup::EndAborted(const absl::Status& status) {
  aborted_ = true;
  Fail(status, status, Alarm::kAborted);
}

absl::Status TransportGroup::Heard() {
  ProgressFamily();
  for (int peer = 1; peer < transport_->size(); ++peer) Listen();
  if (!broken_.ok() || leavers_.empty()) return broken_;
  return leavers_.front().status;
}

bool TransportGroup::ProgressFamily() {
  bool moved = false;
  for (TransportGroup* group : *family_) moved |= group->Progress();
  if (moved) return true;
  for (TransportGroup* group : *family_) group->Listen();
  return false;
}

void TransportGroup::Hear() {
  const std::optional<Alarm> alarm = alarms_->Listen();
  if (!alarm.has_value()) return;
  const absl::Status& status = alarm->status;
  if (alarm->first_missed == Alarm::kAborted) return EndAborted(status);
  if (alarm->first_missed != Alarm::kNone) {
    leavers_.push_back(*alarm);
    return;
  }
  if (!absl::IsDeadlineExceeded(status)) return Fail(status, status);
  CallTheRoll(std::string(ToStd(status.message())), std::max(kMostPatience, LeastPatience()));
}

void TransportGroup::HearAll() {
  for (int peer = 1; peer < transport_->size() && broken_.ok(); ++peer) Hear();
  CheckLeavers();
}

// Hears all alarms of this group and those above it, from the top.
void TransportGroup::HearAncestors() {
  if (parent_ != nullptr) parent_->HearAncestors();
  HearAll();
  HearParent();
}

void TransportGroup::HearParent() {
  if (parent_ != nullptr && parent_->aborted_) EndAborted(parent_->broken_);
}

void TransportGroup::Listen() {
  if (!broken_.ok()) return;
  const size_t known = leavers_.size();
  Hear();
  if (leavers_.size() > known) EndWhatHasCome();
  HearParent();
  if (broken_.ok()) CheckRollCall();
}

nanoseconds TransportGroup::LeastPatience() const {
  return std::max(kLeastPatience, transport_->size() * kPatiencePerRank);
}

void TransportGroup::CallTheRoll(std::string text, nanoseconds patience) {
  if (roll_call_.has_value()) return;
  alarms_->Raise(absl::DeadlineExceededError(text));
  roll_call_ = RollCall{std::move(text), options_.clock() + patience};
}

void TransportGroup::CheckRollCall() {
  if (!roll_call_.has_value()) return;
  const bool late = options_.clock() >= roll_call_->end;
  HearAll();  // ranks that have answered by now are not missing
  if (broken_.ok() && (late || alarms_->Silent().empty())) Fail(RollCallOutcome());
}

absl::Status TransportGroup::RollCallOutcome() const {
  return absl::DeadlineExceededError(
      absl::StrCat(roll_call_->text, "; ", MissingText(alarms_->Silent())));
}

void TransportGroup::CheckTime(const Operation& operation, nanoseconds timeout) {
  if (operation.ended() || timeout <= nanoseconds(0)) return;
  if (options_.clock() - *operation.waited_since_ < timeout) return;
  const std::string text = TimeoutText(transport_->rank(), operation.name(), timeout);
  if (!operation.point_to_point()) {
    const nanoseconds least = LeastPatience();
    return CallTheRoll(text, std::clamp(timeout, least, std::max(least, kMostPatience)));
  }
  const bool sends = operation.request_.kind == Collective::kSend;
  const absl::Status status = absl::DeadlineExceededError(absl::StrCat(
      text, "; rank ", operation.request_.peer, sends ? " does not receive" : " does not send"));
  Fail(status, status);
}

void TransportGroup::CheckWatch(const Operation& operation, const WaitLimits& limits) {
  if (operation.ended() || !limits.watch) return;
  if (const absl::Status status = limits.watch(); !status.ok()) Fail(status, status);
}

bool TransportGroup::Step(Operation& operation, const WaitLimits& limits) {
  if (!operation.waited_since_.has_value()) operation.waited_since_ = options_.clock();
  if (ProgressFamily()) return true;
  CheckWatch(operation, limits);
  CheckTime(operation, limits.timeout);
  return operation.ended();
}

bool TransportGroup::Poll(Operation& operation, const WaitLimits& limits) {
  if (!operation.ended()) Step(operation, limits);
  return operation.ended();
}

absl::Status TransportGroup::Wait(Operation& operation, const WaitLimits& limits) {
  operation.waited_since_.reset();
  nanoseconds idle = kLongestIdle;
  if (limits.timeout > nanoseconds(0)) idle = std::min(idle, limits.timeout);
  while (!operation.ended()) {
    if (!Step(operation, limits)) transport_->Idle(idle);
  }
  return operation.outcome();
}

}  // namespace millrace::collectives
