#ifndef MILLRACE_CAPI_COLLECTIVES_GROUP_H_
#define MILLRACE_CAPI_COLLECTIVES_GROUP_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capi/millrace_collectives.h"
#include "collectives/communicator.h"
#include "collectives/factory.h"
#include "collectives/progress.h"
#include "collectives/watchdog.h"

namespace millrace::capi {

// The place of a rank: its communicator, the watchdog over all ranks, and the program's own reasons
// to end a wait. All waits of the communicator and of its reducers ask Health. Thread-compatible,
// except where a member says otherwise.
class Group final : public collectives::Progress {
 public:
  // Connects as the options say; their `reason` is that of the connection.
  static absl::StatusOr<std::shared_ptr<Group>> Connect(const mr_comm_options& options,
                                                        std::string* reason);
  // Without a watchdog.
  explicit Group(std::unique_ptr<collectives::Communicator> communicator);
  ~Group() override;

  collectives::Communicator& communicator() { return *communicator_; }
  const collectives::Communicator& communicator() const { return *communicator_; }
  const char* backend() const { return backend_.c_str(); }

  // Ends the waits of this rank. Thread-safe.
  void Cancel() { cancelled_.store(true, std::memory_order_release); }

  // Takes this rank out, and says so to the watchdogs of the others.
  void Leave(const absl::Status& reason);

  void Enter(int64_t step, int bucket, collectives::Phase phase) override;
  absl::Status Health() const override;

  // Adds to a loss that a broken connection has told where the rank was seen last.
  absl::Status Explain(const absl::Status& status) const;

  //   FAILED_PRECONDITION  in a forked child
  absl::Status CheckProcess(const char* call) const;
  // True in the process that made the group.
  bool IsHere() const;

 private:
  absl::Status Watch(const mr_comm_options& options);

  const pid_t process_;
  const std::unique_ptr<collectives::Communicator> communicator_;
  const std::string backend_;
  std::unique_ptr<collectives::Watchdog> watchdog_;  // null: there is none
  mr_error* (*watch_)(void* user) = nullptr;
  void* user_ = nullptr;
  // True if this rank waits for nobody any more. Any thread -> the waits, release/acquire.
  std::atomic<bool> cancelled_ = false;
};

// Drops a group or a reducer, but not in a forked child: it would tell the ranks that the parent is
// gone.
template <typename Handle>
void FreeHere(Handle* handle) {
  if (handle != nullptr && handle->group->IsHere()) delete handle;
}

}  // namespace millrace::capi

struct mr_comm {
  std::shared_ptr<millrace::capi::Group> group;
};

#endif  // MILLRACE_CAPI_COLLECTIVES_GROUP_H_
