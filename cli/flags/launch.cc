#include "cli/flags/launch.h"

#include "absl/strings/str_cat.h"

namespace millrace::cli {

collectives::ConnectOptions LaunchFlags::options() const {
  collectives::ConnectOptions options = connect;
  options.connect_timeout = connect_timeout();
  options.timeout = std::chrono::seconds(timeout_s);
  return options;
}

void AddLaunchFlags(Command command, LaunchFlags& flags) {
  command
      .Add("--stall-report-ms", flags.stall_report_ms,
           "Report a rank after the others have waited for it this long")
      .ShowDefault()
      .Whole(1, kMaxInt);
  command
      .Add("--stall-abort-ms", flags.stall_abort_ms,
           "Give a rank up after this long, and exit with 76 (0: never)")
      .ShowDefault()
      .Whole(0, kMaxInt);
  command
      .Add("--rank", flags.connect.flags.rank,
           "Rank of this process, with --world-size (default: the launcher's)")
      .Whole(0, 1 << 24);
  command
      .Add("--world-size", flags.connect.flags.size,
           "Number of processes (default: the launcher's)")
      .Whole(1, 1 << 24);
  command.Add(
      "--rendezvous", flags.connect.rendezvous,
      "Where the processes meet: HOST:PORT of rank 0, or file:FOLDER, a folder that all share");
  command.Add("--job-id", flags.connect.job_id,
              "Refuse processes with another job id at the rendezvous (default: the launcher's)");
  command.Add(
      "--backend", flags.connect.backend,
      absl::StrCat("How ranks talk, instead of what suits the launcher: ", "single, tcp, mpi"));
  command
      .Add("--connect-timeout", flags.connect_timeout_s,
           "Seconds to wait for the other ranks at the start, and at the end of MPI")
      .Whole(1, 1 << 24);
  command
      .Add("--timeout", flags.timeout_s,
           "Seconds that an operation may wait for a peer before the job fails (0: for ever)")
      .Whole(0, 1 << 24);
}

}  // namespace millrace::cli
