#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "cli/bench/collectives.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"
#include "cli/wait/unbounded_watch.h"
#include "collectives/factory.h"
#include "collectives/nccl_communicator.h"
#include "nlohmann/json.hpp"

// `millrace bench` measures the collectives of every backend, as nccl-tests does for NCCL.

namespace millrace::cli {
namespace {

using collectives::Communicator;

struct Flags {
  std::string operation;
  std::string op = "sum";
  std::string dtype = "float32";
  int ranks = 1;
  std::string backend;
  int connect_timeout_s = 300;
  int timeout_s = 0;
  uint64_t min_bytes = 8;
  uint64_t max_bytes = uint64_t{128} << 20;
  uint64_t factor = 2;
  int root = 0;
  int warmup = 5;
  int repeats = 20;
  bool no_check = false;
  bool json = false;
};

absl::StatusOr<CollectiveBenchOptions> OptionsOf(const Flags& flags) {
  CollectiveBenchOptions options;
  MILLRACE_ASSIGN_OR_RETURN(options.kind, CollectiveOf(flags.operation));
  MILLRACE_ASSIGN_OR_RETURN(options.op, ReduceOpOf(flags.op));
  MILLRACE_ASSIGN_OR_RETURN(options.dtype, ElementTypeOf(flags.dtype));
  options.root = flags.root;
  options.min_bytes = flags.min_bytes;
  options.max_bytes = flags.max_bytes;
  options.factor = flags.factor;
  options.warmup = flags.warmup;
  options.repeats = flags.repeats;
  options.check = !flags.no_check;
  return options;
}

// The table that rank 0 prints, each row as soon as it is measured.
class Table {
 public:
  Table(const Flags& flags, bool prints) : flags_(flags), prints_(prints) {}

  void Begin(const Communicator& communicator, const std::string& reason) {
    json_["operation"] = flags_.operation;
    json_["reduction"] = flags_.op;
    json_["dtype"] = flags_.dtype;
    json_["ranks"] = communicator.size();
    json_["backend"] = std::string(communicator.backend());
    json_["rows"] = nlohmann::json::array();
    if (!prints_ || flags_.json) return;
    absl::PrintF("# %s of %s (%s), %d ranks, %s\n", flags_.operation, flags_.dtype, flags_.op,
                 communicator.size(), reason);
    if (communicator.size() == 1) {
      absl::PrintF(
          "# one rank has nothing to exchange: the times are those of a call; see --ranks\n");
    }
    absl::PrintF("%14s %14s %12s %14s %14s %8s\n", "bytes", "count", "time us", "algbw GB/s",
                 "busbw GB/s", "wrong");
  }

  void Add(const CollectiveBenchRow& row) {
    if (row.num_wrong > 0) num_wrong_ += row.num_wrong;
    bus_sum_ += row.bus_bytes_per_second;
    ++num_rows_;
    if (!prints_) return;
    if (flags_.json) return AddJson(row);
    const std::string wrong = row.num_wrong < 0 ? "-" : absl::StrCat(row.num_wrong);
    absl::PrintF("%14d %14d %12.1f %14.3f %14.3f %8s\n", row.bytes, row.count, row.seconds * 1e6,
                 row.algorithm_bytes_per_second / 1e9, row.bus_bytes_per_second / 1e9, wrong);
    std::fflush(stdout);
  }

  absl::Status End() {
    const double mean = num_rows_ > 0 ? bus_sum_ / num_rows_ : 0;
    if (prints_ && flags_.json) {
      json_["mean_bus_bytes_per_second"] = mean;
      absl::PrintF("%s\n", json_.dump(2));
    } else if (prints_) {
      absl::PrintF("# mean busbw %.3f GB/s\n", mean / 1e9);
    }
    if (num_wrong_ == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(num_wrong_, " elements are wrong"));
  }

 private:
  void AddJson(const CollectiveBenchRow& row) {
    json_["rows"].push_back(
        {{"bytes", row.bytes},
         {"count", row.count},
         {"seconds", row.seconds},
         {"algorithm_bytes_per_second", row.algorithm_bytes_per_second},
         {"bus_bytes_per_second", row.bus_bytes_per_second},
         {"wrong", row.num_wrong < 0 ? nlohmann::json() : nlohmann::json(row.num_wrong)}});
  }

  const Flags& flags_;
  const bool prints_;
  nlohmann::json json_;
  int64_t num_wrong_ = 0;
  double bus_sum_ = 0;
  int num_rows_ = 0;
};

absl::Status BenchRank(const Flags& flags, const CollectiveBenchOptions& options,
                       Communicator& communicator, const std::string& reason) {
  Table table(flags, communicator.rank() == 0);
  table.Begin(communicator, reason);
  std::optional<Progress> progress;
  if (communicator.rank() == 0) {
    progress.emplace("bench", "", static_cast<int64_t>(BytesOfAllSizes(options)));
  }
  communicator.set_timeout(std::chrono::seconds(flags.timeout_s));
  MILLRACE_RETURN_IF_ERROR(
      BenchCollective(communicator, options, [&](const CollectiveBenchRow& row) {
        if (progress) progress->Clear();
        table.Add(row);
        if (progress) progress->Add(static_cast<int64_t>(row.bytes));
      }));
  progress.reset();
  return table.End();
}

// Every rank makes the same calls, so NCCL's need not be compared.
collectives::NcclOptions NcclOptionsOf(const Flags& flags) {
  collectives::NcclOptions options;
  options.connect_timeout = std::chrono::seconds(flags.connect_timeout_s);
  options.compare_calls = false;
  return options;
}

// `watch` must outlive the result.
absl::StatusOr<collectives::Launch> ConnectAll(const Flags& flags, UnboundedWatch& watch) {
  collectives::ConnectOptions options;
  if (flags.ranks == 1) options.backend = flags.backend;
  options.connect_timeout = std::chrono::seconds(flags.connect_timeout_s);
  options.nccl = NcclOptionsOf(flags);
  options.on_unbounded = [&watch](std::string_view what) { watch.Tell(what); };
  return collectives::Connect(options);
}

// Runs one of the ranks that are threads of this process.
absl::Status BenchThread(const Flags& flags, const CollectiveBenchOptions& options,
                         Communicator& communicator) {
  if (flags.backend != "nccl") {
    return BenchRank(flags, options, communicator, "threads: --ranks");
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto nccl,
                            collectives::MakeNccl(communicator, NcclOptionsOf(flags)));
  return BenchRank(flags, options, *nccl,
                   absl::StrCat("nccl: ", nccl->version(), "; threads: --ranks"));
}

absl::Status CheckThreads(const Flags& flags) {
  if (flags.ranks == 1 || flags.backend.empty() || flags.backend == "threads" ||
      flags.backend == "nccl") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--ranks makes threads of one process, which backend '", flags.backend,
                   "' does not connect: threads and nccl do"));
}

// Runs the ranks that a launcher started, or ranks as threads of this process.
absl::Status BenchAll(const Flags& flags, const CollectiveBenchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckThreads(flags));
  UnboundedWatch watch(std::chrono::seconds(flags.connect_timeout_s));
  MILLRACE_ASSIGN_OR_RETURN(const collectives::Launch launch, ConnectAll(flags, watch));
  const bool launched = launch.communicator->size() > 1;
  if (launched && flags.ranks > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks makes threads of one process, but a launcher started ",
                     launch.communicator->size(), " processes: leave it out"));
  }
  if (launched || flags.ranks == 1) {
    return BenchRank(flags, options, *launch.communicator, launch.reason);
  }
  return collectives::RunRanks(flags.ranks, [&](Communicator& communicator) {
    return BenchThread(flags, options, communicator);
  });
}

int Bench(const Flags& flags) {
  const auto options = OptionsOf(flags);
  if (!options.ok()) return FailUsage(options.status());
  const absl::Status status = BenchAll(flags, *options);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace

void AddBench(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command =
      parent.AddCommand("bench", "Measure a collective operation over sizes, as nccl-tests does");
  command.Add("operation", flags->operation, absl::StrJoin(CollectiveNames(), ", ")).Required();
  command.Add("--ranks", flags->ranks, "Ranks as threads of this process").Whole(1, 256);
  command.Add("--backend", flags->backend,
              "single, tcp, mpi or nccl (default: by the launcher); with --ranks threads or nccl "
              "(a GPU for each)");
  command
      .Add("--connect-timeout", flags->connect_timeout_s,
           "Seconds to wait for the other ranks at the start, and at the end of MPI")
      .ShowDefault()
      .Whole(1, 1 << 24);
  command
      .Add("--timeout", flags->timeout_s,
           "Seconds that a call may wait for the other ranks (0: no limit)")
      .ShowDefault()
      .Whole(0, 1 << 24);
  command.Add("--min-bytes", flags->min_bytes, "Smallest size").ShowDefault().Whole(1);
  command.Add("--max-bytes", flags->max_bytes, "Largest size")
      .ShowDefault()
      .Whole(1, uint64_t{1} << 36);
  command.Add("--factor", flags->factor, "Factor from one size to the next")
      .ShowDefault()
      .Whole(2, 1 << 20);
  command.Add("--dtype", flags->dtype, "Element type").ShowDefault();
  command.Add("--op", flags->op, "sum, product, min, max, average").ShowDefault();
  command.Add("--root", flags->root, "Root of broadcast and reduce").Whole(0, kMaxInt);
  command.Add("--warmup", flags->warmup, "Calls before the timed ones")
      .ShowDefault()
      .Whole(0, 1 << 20);
  command.Add("--repeats", flags->repeats, "Timed calls of each size")
      .ShowDefault()
      .Whole(1, 1 << 20);
  command.AddSwitch("--no-check", flags->no_check, "Do not compare the results with exact ones");
  command.AddSwitch("--json", flags->json, "One JSON object instead of the table");
  command.Footer(
      "algbw is the size by the median time of the slowest rank; busbw is algbw times 2(n-1)/n\n"
      "(allreduce), (n-1)/n (reduce-scatter, all-gather, all-to-all) or 1, as in nccl-tests.\n"
      "Examples:\n"
      "  millrace bench allreduce --ranks 2\n"
      "  millrace bench all-gather --backend nccl --ranks 8\n"
      "  mpirun -np 2 millrace bench allreduce --min-bytes 1048576 --max-bytes 134217728");
  command.Do([flags] { return Bench(*flags); });
}

}  // namespace millrace::cli
