#include "cli/flags/reduction.h"

#include <limits>
#include <string>

namespace millrace::cli {

void AddReductionFlags(Command command, ReductionFlags& flags) {
  const auto add = [&](const std::string& flag, const std::string& field,
                       const std::string& about) {
    return command.AddWord(
        flag,
        [&flags, field](const std::string& value) {
          flags.given.push_back({field, value});
        },
        about);
  };
  const auto add_switch = [&](const std::string& flag, const std::string& field,
                              const std::string& about) {
    command.AddSwitch(
        flag,
        [&flags, field](bool value) {
          flags.given.push_back({field, value ? "true" : "false"});
        },
        about);
  };
  constexpr uint64_t kMost32 = std::numeric_limits<uint32_t>::max();
  constexpr double kMostDouble = std::numeric_limits<double>::max();
  add("--accumulate-steps", "accumulate_steps", "Batches that make one step of the optimizer")
      .Whole(1, kMost32);
  add("--clip-norm", "clip_norm", "Limit the norm of all gradients together (0: no limit)")
      .Finite(0, kMostDouble);
  add_switch("--skip-non-finite", "skip_non_finite",
             "Skip the steps whose gradients are infinite or NaN, on all ranks");
  add("--max-skipped-steps", "max_skipped_steps",
      "With --skip-non-finite: fail after more in a row (0: no limit)")
      .Whole(0);
  add_switch("--exact-reduction", "exact",
             "Sums with the same bits for every backend and placement of ranks");
  add("--wire-dtype", "wire_dtype", "Type to which sums are rounded between hosts")
      .OneOf({"float32", "float16", "bfloat16"});
  add_switch("--shard-optimizer", "shard_optimizer",
             "Each rank keeps the optimizer's state of its part of the weights (ZeRO-1)");
  add("--stale-steps", "stale_steps",
      "Use sums this many steps late, so that no step waits for its own")
      .Whole(0, kMost32);
  add("--synchronous-tail", "synchronous_tail",
      "With --stale-steps: steps at the end that wait for their own sums")
      .Whole(1);
  add("--digest-every", "digest_every",
      "Steps between two comparisons of the ranks' weights (0: never)")
      .Whole(0);
  add("--bucket-bytes", "bucket_bytes", "Gradients are reduced in buckets of this size").Whole(1);
  add("--edge-bucket-bytes", "edge_bucket_bytes", "Size of the first bucket and the last").Whole(1);
  add("--progress-policy", "progress_policy",
      "Thread that reduces: the computing one, another one, or chosen by cores and ranks")
      .OneOf({"auto", "inline", "thread"});
}

}  // namespace millrace::cli
