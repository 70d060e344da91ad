// One rank of a job, for the tests that start whole jobs: connects as `millrace train` does, sums
// rank + 1 over all ranks and prints "rank R of N sum S, BACKEND: REASON". Failures go to standard
// error, with exit code 1.
//
//   connect_rank [--rank R --world-size N] [--rendezvous ADDRESS] [--backend NAME] [--timeout MS]
//                [--connect-timeout MS] [--job-id ID] [--die-before-sum R] [--abort-before-sum R]
//                [--watchdog yes]
#include <signal.h>  // NOLINT: kill is POSIX
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/watchdog.h"

namespace millrace::collectives {
namespace {

struct Flags {
  ConnectOptions connect;
  int dies = -1;
  int aborts = -1;
  bool watchdog = false;
};

Flags ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--rank") flags.connect.flags.rank = std::stoi(value);
    if (name == "--world-size") flags.connect.flags.size = std::stoi(value);
    if (name == "--rendezvous") flags.connect.rendezvous = value;
    if (name == "--job-id") flags.connect.job_id = value;
    if (name == "--backend") flags.connect.backend = value;
    if (name == "--connect-timeout") {
      flags.connect.connect_timeout = std::chrono::milliseconds(std::stoi(value));
    }
    if (name == "--timeout") flags.connect.timeout = std::chrono::milliseconds(std::stoi(value));
    if (name == "--die-before-sum") flags.dies = std::stoi(value);
    if (name == "--watchdog") flags.watchdog = value == "yes";
    if (name == "--abort-before-sum") flags.aborts = std::stoi(value);
  }
  return flags;
}

absl::Status Run(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const Launch launch, Connect(flags.connect));
  Communicator& comm = *launch.communicator;
  MILLRACE_RETURN_IF_ERROR(comm.Barrier());
  std::unique_ptr<Watchdog> watchdog;
  if (flags.watchdog) {
    MILLRACE_ASSIGN_OR_RETURN(watchdog, Watchdog::Make(comm));
  }
  if (comm.rank() == flags.dies) ::kill(::getpid(), SIGKILL);
  if (comm.rank() == flags.aborts) {
    comm.Abort(absl::InternalError("had enough"));
    return absl::InternalError("had enough");
  }
  int64_t sum = comm.rank() + 1;
  MILLRACE_RETURN_IF_ERROR(comm.AllReduce(TensorView{&sum, DType::kI64, Shape{1}}, ReduceOp::kSum));
  std::printf("rank %d of %d sum %lld, %s: %s\n", comm.rank(), comm.size(),
              static_cast<long long>(sum), std::string(comm.backend()).c_str(),
              launch.reason.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::collectives

int main(int argc, char** argv) {
  const absl::Status status =
      millrace::collectives::Run(millrace::collectives::ParseFlags(argc, argv));
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}
