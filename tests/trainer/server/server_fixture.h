#ifndef MILLRACE_TESTS_TRAINER_SERVER_SERVER_FIXTURE_H_
#define MILLRACE_TESTS_TRAINER_SERVER_SERVER_FIXTURE_H_

#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/loop/train_fixture.h"
#include "trainer/server/run.h"

namespace millrace::trainer {

// Runs the job of TrainTest on servers, whose processes are threads.
class ServerTest : public TrainTest {
 protected:
  // As Run; the last `servers` ranks of all are servers. Returns the chief's outcome. All ranks'
  // statuses are in statuses_.
  absl::StatusOr<TrainOutcome> RunOnServers(int workers, int servers, bool resume = false) {
    lines_.clear();
    steps_.clear();
    reported_.clear();
    const int world = workers + servers;
    statuses_.assign(world, absl::OkStatus());
    absl::StatusOr<TrainOutcome> chief = TrainOutcome();
    (void)collectives::RunRanks(world, [&](collectives::Communicator& communicator) {
      TrainOptions options = OptionsOf(communicator.rank(), workers, resume);
      TrainParts parts;
      if (adjust_) adjust_(options, communicator);
      if (change_parts_) change_parts_(parts, communicator);
      auto task = SplitRanks(options, communicator);
      absl::StatusOr<TrainOutcome> outcome = TrainOutcome();
      if (!task.ok()) outcome = task.status();
      if (task.ok()) outcome = TrainAndComeAgain(parts, options, *task);
      const std::lock_guard lock(mu_);
      statuses_[communicator.rank()] = outcome.status();
      if (communicator.rank() == 0) chief = outcome;
      return absl::OkStatus();
    });
    return chief;
  }

  // A worker that fails comes again, as often as `returns_` says.
  absl::StatusOr<TrainOutcome> TrainAndComeAgain(const TrainParts& parts,
                                                 const TrainOptions& options, ServerTask& task) {
    while (true) {
      ServerTask again = {task.workers, task.servers, task.is_server, task.index, 1, nullptr};
      again.listening = std::move(task.listening);
      absl::StatusOr<TrainOutcome> outcome = TrainOnServersWith(parts, options, std::move(again));
      if (outcome.ok() || task.is_server || task.index == 0) return outcome;
      const std::lock_guard lock(mu_);
      if (returns_ == 0) return outcome;
      --returns_;
    }
  }

  TrainOptions OptionsOf(int rank, int workers, bool resume) {
    TrainOptions options;
    options.job_path = folder_ / "job.pbtxt";
    options.variables = {{"DATA", folder_}};
    options.resume = resume;
    options.threads = 1;
    options.start_timeout = std::chrono::seconds(60);
    options.print = [this, rank](std::string_view line) {
      const std::lock_guard lock(mu_);
      if (rank == 0) lines_.emplace_back(line);
      if (rank == 0 && line.starts_with("step ")) steps_.emplace_back(line);
    };
    options.warn = [this, workers, rank](std::string_view line) {
      const std::lock_guard lock(mu_);
      warnings_.push_back(absl::StrCat(rank - workers, " ", std::string(line)));
    };
    options.report = [this, rank](const absl::Status& why) {
      const std::lock_guard lock(mu_);
      reported_.emplace_back(rank, std::string(why.message()));
    };
    return options;
  }

  int returns_ = 0;
  std::vector<std::string> warnings_;  // of servers, with their number in front
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_SERVER_SERVER_FIXTURE_H_
