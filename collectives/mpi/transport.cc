// Ranks as processes of an MPI job: messages between two of them.
//
// Every call is checked (MPI_ERRORS_RETURN) and made on the thread that began (FUNNELED). No
// message is near INT_MAX bytes.

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/mpi/connect_mpi.h"
#include "collectives/mpi/runtime.h"
#include "collectives/mpi/world.h"

namespace millrace::collectives {
namespace {

using std::chrono::nanoseconds;

// A turn of a waiting rank costs it about a microsecond: it yields for some milliseconds, which
// keeps it quick while the others are near, and sleeps when they compute.
constexpr int kYields = 4000;
constexpr nanoseconds kNap = std::chrono::microseconds(50);

// How often a cancelled message is asked for: MPI ends one that nobody has matched at once.
constexpr int kCancelTests = 1000;

class MpiTransport final : public Transport {
 public:
  // `members`: ranks of the world by rank of the group.
  MpiTransport(std::shared_ptr<MpiWorld> world, uint32_t group, std::vector<int> members);
  ~MpiTransport() override;

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  int local_rank() const override { return local_.rank; }
  int local_size() const override { return local_.size; }
  std::string_view name() const override { return "mpi"; }
  // FUNNELED grants one thread; a message that is half received cannot be cancelled; and one that
  // nobody receives keeps MPI_Finalize waiting.
  Capabilities capabilities() const override {
    return {.any_thread = false, .cancel_is_final = false, .drops_unawaited = false};
  }

  absl::StatusOr<Id> Send(std::span<const std::byte> data, int peer, uint32_t tag) override;
  absl::StatusOr<Id> Receive(std::span<std::byte> data, int peer, uint32_t tag) override;
  absl::Status Post(std::span<const std::byte> data, int peer, uint32_t tag) override;
  absl::StatusOr<bool> Test(Id id) override;
  void Cancel(Id id) override;
  void Idle(nanoseconds limit) override;
  uint32_t next_group() const override { return world_->next_group; }
  absl::StatusOr<std::unique_ptr<Transport>> Split(std::span<const Choice> choices) override;
  // The exit code is all that MPI lets a library say; the caller reports `reason`.
  void Abort(const absl::Status&) override {
    world_->runtime->MarkBroken();
    MPI_Abort(world_->comm, 1);
  }

 private:
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;  // null: the place is free
    int bytes = 0;
    bool received = false;
  };

  // MPI's number for a tag of this group.
  int TagOf(uint32_t tag) const { return static_cast<int>(group_ * kTagsOfGroup + tag); }
  absl::Status CheckShared(int result, const char* call) const {
    return world_->runtime->CheckShared(result, call);
  }
  Id Keep(MPI_Request request, size_t bytes, bool received);
  void Free(Id id) {
    messages_[id - 1] = {};
    free_.push_back(id);
  }
  // False: MPI keeps its memory.
  static bool GiveUp(Message& message);

  const std::shared_ptr<MpiWorld> world_;
  const uint32_t group_;
  const std::vector<int> members_;
  Place place_;
  Place local_{0, 0};
  std::vector<Message> messages_;  // by id - 1
  std::vector<Id> free_;
  std::vector<std::pair<Message, std::unique_ptr<std::vector<std::byte>>>> posted_;
  int idle_ = 0;  // turns since the last message
};

MpiTransport::MpiTransport(std::shared_ptr<MpiWorld> world, uint32_t group,
                           std::vector<int> members)
    : world_(std::move(world)), group_(group), members_(std::move(members)) {
  place_.size = static_cast<int>(members_.size());
  for (int i = 0; i < place_.size; ++i) {
    if (members_[i] == world_->place.rank) place_.rank = i;
  }
  for (int i = 0; i < place_.size; ++i) {
    if (!world_->on_host[members_[i]]) continue;
    if (i < place_.rank) ++local_.rank;
    ++local_.size;
  }
}

MpiTransport::~MpiTransport() {
  if (MpiIsFinalized()) return;
  for (Message& message : messages_) GiveUp(message);
  for (auto& [message, memory] : posted_) {
    if (!GiveUp(message)) (void)memory.release();
  }
}

MpiTransport::Id MpiTransport::Keep(MPI_Request request, size_t bytes, bool received) {
  if (free_.empty()) {
    messages_.emplace_back();
    free_.push_back(messages_.size());
  }
  const Id id = free_.back();
  free_.pop_back();
  messages_[id - 1] = {request, static_cast<int>(bytes), received};
  return id;
}

absl::StatusOr<MpiTransport::Id> MpiTransport::Send(std::span<const std::byte> data, int peer,
                                                    uint32_t tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  MILLRACE_RETURN_IF_ERROR(
      CheckShared(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, members_[peer],
                            TagOf(tag), world_->comm, &request),
                  "MPI_Isend"));
  return Keep(request, data.size(), false);
}

absl::StatusOr<MpiTransport::Id> MpiTransport::Receive(std::span<std::byte> data, int peer,
                                                       uint32_t tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  MILLRACE_RETURN_IF_ERROR(
      CheckShared(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, members_[peer],
                            TagOf(tag), world_->comm, &request),
                  "MPI_Irecv"));
  return Keep(request, data.size(), true);
}

// Whether the peer still listens is not known, and MPI gives the number of a communicator that is
// freed to a later one, which must not get this message.
absl::Status MpiTransport::Post(std::span<const std::byte> data, int peer, uint32_t tag) {
  world_->runtime->MarkBroken();
  auto memory = std::make_unique<std::vector<std::byte>>(data.begin(), data.end());
  MPI_Request request = MPI_REQUEST_NULL;
  MILLRACE_RETURN_IF_ERROR(
      CheckShared(MPI_Isend(memory->data(), static_cast<int>(data.size()), MPI_BYTE, members_[peer],
                            TagOf(tag), world_->comm, &request),
                  "MPI_Isend"));
  posted_.emplace_back(Message{request, static_cast<int>(data.size()), false}, std::move(memory));
  return absl::OkStatus();
}

absl::StatusOr<bool> MpiTransport::Test(Id id) {
  const Message message = messages_[id - 1];
  int ended = 0;
  MPI_Status status;
  const absl::Status tested =
      CheckShared(MPI_Test(&messages_[id - 1].request, &ended, &status), "MPI_Test");
  if (tested.ok() && ended == 0) return false;
  idle_ = 0;
  Free(id);
  MILLRACE_RETURN_IF_ERROR(tested);
  if (!message.received) return true;
  int bytes = 0;
  MILLRACE_RETURN_IF_ERROR(CheckMpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count"));
  if (bytes == message.bytes) return true;
  return absl::InvalidArgumentError(
      absl::StrCat(bytes, " bytes came where ", message.bytes, " were awaited"));
}

// A message that is half received, or sent to a rank that does not receive, cannot be cancelled:
// MPI keeps it, and its memory, until the job ends.
bool MpiTransport::GiveUp(Message& message) {
  if (message.request == MPI_REQUEST_NULL) return true;
  if (message.received) MPI_Cancel(&message.request);
  int ended = 0;
  for (int i = 0; i < kCancelTests && ended == 0; ++i) {
    if (MPI_Test(&message.request, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
  }
  if (ended == 0) MPI_Request_free(&message.request);
  return ended != 0;
}

void MpiTransport::Cancel(Id id) {
  world_->runtime->MarkBroken();
  GiveUp(messages_[id - 1]);
  Free(id);
}

void MpiTransport::Idle(nanoseconds limit) {
  if (idle_ < kYields) {
    ++idle_;
    sched_yield();
    return;
  }
  const timespec nap = {0, static_cast<long>(std::min(limit, kNap).count())};
  nanosleep(&nap, nullptr);
}

// The ranks have agreed by messages, under a deadline; nothing is left to wait for.
absl::StatusOr<std::unique_ptr<Transport>> MpiTransport::Split(std::span<const Choice> choices) {
  // A number that no member has seen: two groups with two ranks in common never have the same one.
  uint32_t group = 0;
  std::vector<std::pair<int32_t, int>> chosen;  // key, rank
  for (int i = 0; i < size(); ++i) {
    group = std::max(group, choices[i].next_group);
    if (choices[i].color == choices[rank()].color) chosen.emplace_back(choices[i].key, i);
  }
  if (group >= world_->num_groups) {  // on every rank alike
    return MarkAgreed(absl::ResourceExhaustedError(
        absl::StrCat("this MPI has tags (MPI_TAG_UB) for ", world_->num_groups,
                     " groups, and all have been split off")));
  }
  world_->next_group = group + 1;
  std::sort(chosen.begin(), chosen.end());
  std::vector<int> members;
  for (const auto& [order, member] : chosen) members.push_back(members_[member]);
  return std::make_unique<MpiTransport>(world_, group, std::move(members));
}

absl::StatusOr<std::unique_ptr<MpiTransport>> MakeWorld(const std::shared_ptr<MpiRuntime>& runtime,
                                                        uint32_t max_groups) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<MpiWorld> world, MpiWorld::Make(runtime));
  if (max_groups > 0) world->num_groups = std::min(world->num_groups, max_groups);
  std::vector<int> members(world->place.size);
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<MpiTransport>(std::move(world), 0, std::move(members));
}

}  // namespace

bool HasMpi() { return true; }

bool ReportsMissingPmi() { return !kIsOpenMpi; }

absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(const MpiOptions& options) {
  MpiRuntime::SetEnvironment(options.local_size);
  if (options.on_unbounded) options.on_unbounded("the start of MPI");
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<MpiRuntime> runtime,
                            MpiRuntime::Start(options.on_unbounded));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MpiTransport> transport,
                            MakeWorld(runtime, options.max_groups));
  if (options.on_unbounded) options.on_unbounded("");
  return MakeTransportCommunicator(std::move(transport), options.transport);
}

}  // namespace millrace::collectives
