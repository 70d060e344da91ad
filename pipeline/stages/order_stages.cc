#include "base/philox.h"
#include "pipeline/plan/limits.h"
#include "pipeline/stages/row.h"

// Order stages. They move no payload.

namespace millrace::pipeline {
namespace {

using proto::Stage;
using Kind = OrderStep::Kind;

constexpr uint64_t kMaxCycle = 1 << 16;  // open files

void FillInterleave(proto::Interleave* interleave) {
  if (interleave->cycle_length() == 0) interleave->set_cycle_length(1);
  if (interleave->block_length() == 0) interleave->set_block_length(1);
}

absl::Status CheckInterleave(const OptionsChecker& check, const proto::Interleave& interleave) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("cycle_length", interleave.cycle_length(), 1, kMaxCycle));
  return check.InRange("block_length", interleave.block_length(), 1, kMaxCount - 1);
}

absl::Status CheckShuffle(const OptionsChecker& check, const proto::Shuffle& shuffle) {
  return check.InRange("buffer_size", shuffle.buffer_size(), 1, kMaxShuffleBuffer);
}

absl::Status CheckGlobalShuffle(const OptionsChecker& check, const proto::GlobalShuffle& shuffle) {
  if (shuffle.window() == 0 || shuffle.block_bytes() != 0) return absl::OkStatus();
  return check.Error("window", " mixes blocks; it needs block_bytes");
}

absl::Status CheckShard(const OptionsChecker& check, const proto::Shard& shard) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("num_shards", shard.num_shards(), 1, kMaxShards));
  return check.InRange("index", shard.index(), 0, shard.num_shards() - 1);
}

// The check of take and skip.
template <typename Count>
absl::Status CheckCount(const OptionsChecker& check, const Count& stage) {
  return check.InRange("count", stage.count(), 1, UINT64_MAX);
}

void ToInterleave(const proto::Interleave& interleave, OrderStep* step) {
  step->kind = Kind::kInterleave;
  step->count = interleave.cycle_length();
  step->second = interleave.block_length();
  step->shuffle_files = interleave.shuffle_files();
  step->key = HashName(step->stage);
}

void ToShuffle(const proto::Shuffle& shuffle, OrderStep* step) {
  step->kind = Kind::kShuffle;
  step->count = shuffle.buffer_size();
  step->key = HashName(step->stage);
}

void ToGlobalShuffle(const proto::GlobalShuffle& shuffle, OrderStep* step) {
  step->kind = Kind::kGlobalShuffle;
  step->count = shuffle.block_bytes();
  step->second = shuffle.window();
  step->key = HashName(step->stage);
}

void ToShard(const proto::Shard& shard, OrderStep* step) {
  step->kind = Kind::kShard;
  step->count = shard.num_shards();
  step->second = shard.index();
  step->by_bytes = shard.by_bytes();
}

void ToRepeat(const proto::Repeat& repeat, OrderStep* step) {
  step->kind = Kind::kRepeat;
  step->count = repeat.epochs();
}

void ToTake(const proto::Take& take, OrderStep* step) {
  step->kind = Kind::kTake;
  step->count = take.count();
}

void ToSkip(const proto::Skip& skip, OrderStep* step) {
  step->kind = Kind::kSkip;
  step->count = skip.count();
}

constexpr StageRow kOrderRows[] = {
    {.op_case = Stage::kInterleave,
     .name = "interleave",
     .kind = StageKind::kOrder,
     .doc = "Directly after a source of files: reads several files in turns, in tf.data's "
            "deterministic order.",
     .options = {{"cycle_length", "files that are read in turns"},
                 {"block_length", "records of each in turn"},
                 {"shuffle_files", "the files in another order each epoch"}},
     .fill = Fill<&Stage::mutable_interleave, FillInterleave>,
     .check = Check<&Stage::interleave, CheckInterleave>,
     .order = To<&Stage::interleave, ToInterleave>},
    {.op_case = Stage::kShuffle,
     .name = "shuffle",
     .kind = StageKind::kOrder,
     .doc = "Picks from a buffer of the next elements at random, another way each epoch.",
     .options = {{"buffer_size", "elements, at most 2^27 (behind a cut 2^20)", kRequired}},
     .check = Check<&Stage::shuffle, CheckShuffle>,
     .order = To<&Stage::shuffle, ToShuffle>},
    {.op_case = Stage::kGlobalShuffle,
     .name = "global_shuffle",
     .kind = StageKind::kOrder,
     .doc = "A permutation of all that comes before it, another one each epoch.",
     .options = {{"block_bytes",
                  "permute blocks of about so many bytes instead of records, then mix",
                  "0: single records"},
                 {"window", "records that are mixed together, with `block_bytes`", "16 blocks"}},
     .check = Check<&Stage::global_shuffle, CheckGlobalShuffle>,
     .order = To<&Stage::global_shuffle, ToGlobalShuffle>},
    {.op_case = Stage::kShard,
     .name = "shard",
     .kind = StageKind::kOrder,
     .doc = "Elements index, index + num_shards, ... of what comes before it.",
     .options = {{"num_shards", "at most 2^31", kRequired},
                 {"index", ""},
                 {"by_bytes",
                  "directly behind a source of files, consecutive records instead, of about as "
                  "many bytes as every other shard's"}},
     .check = Check<&Stage::shard, CheckShard>,
     .order = To<&Stage::shard, ToShard>,
     .skips_records = Always},
    {.op_case = Stage::kRepeat,
     .name = "repeat",
     .kind = StageKind::kOrder,
     .doc = "All that comes before it, again and again.",
     .options = {{"epochs", "", "0: for ever"}},
     .order = To<&Stage::repeat, ToRepeat>},
    {.op_case = Stage::kTake,
     .name = "take",
     .kind = StageKind::kOrder,
     .doc = "The first elements, or batches.",
     .options = {{"count", "", kRequired}},
     .check = Check<&Stage::take, CheckCount<proto::Take>>,
     .order = To<&Stage::take, ToTake>,
     .skips_records = Always},
    {.op_case = Stage::kSkip,
     .name = "skip",
     .kind = StageKind::kOrder,
     .doc = "All but the first elements, or batches.",
     .options = {{"count", "", kRequired}},
     .check = Check<&Stage::skip, CheckCount<proto::Skip>>,
     .order = To<&Stage::skip, ToSkip>,
     .skips_records = Always},
};

}  // namespace

constinit const StageFamily kOrderStages = {"order", "Order", kOrderRows};

}  // namespace millrace::pipeline
