#ifndef MILLRACE_PIPELINE_PHYSICAL_PLAN_INTERNAL_H_
#define MILLRACE_PIPELINE_PHYSICAL_PLAN_INTERNAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/op.h"
#include "base/schema.h"

// What the optimizer hands to the executor: an order to evaluate, ops to apply, a batch to fill.

namespace millrace::pipeline {

// One step of the order, from the source outwards; no payload moves.
struct OrderStep {
  enum class Kind { kGlobalShuffle, kRepeat, kTake, kSkip };
  Kind kind = Kind::kTake;
  uint64_t count = 0;  // kRepeat: epochs (0 for ever); kTake, kSkip: elements
  uint64_t key = 0;    // kGlobalShuffle: HashName of the stage's name
  std::string stage;   // for messages and explain
};

struct PhysicalOp {
  std::string stage;       // the stage's name
  std::string summary;     // for explain
  std::unique_ptr<Op> op;  // resolved
  std::vector<std::string>
      binds;  // batch fields that this op writes last: stored straight into the slab
};

struct PhysicalPlan {
  // Source.
  std::vector<std::string> file_patterns;
  std::string compression;  // "auto", "none", "gzip", "zlib"
  bool verify_crc = true;
  uint64_t max_record_bytes = 0;
  // Order, before the batch stage and after it (only kRepeat, kTake, kSkip, over whole batches).
  uint64_t seed = 0;
  uint32_t semantics_version = 1;
  std::vector<OrderStep> order;
  std::vector<OrderStep> batch_order;
  // Work.
  std::vector<PhysicalOp> ops;
  Schema batch_schema;  // per sample: known shapes, no kBytes
  // Batch.
  uint64_t batch_size = 0;  // global
  bool drop_remainder = false;
  int prefetch_batches = 2;
  // Rules that fired, for explain: "map_into_batch: image stored by normalize".
  std::vector<std::string> rules;
  uint64_t plan_fingerprint = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PHYSICAL_PLAN_INTERNAL_H_
