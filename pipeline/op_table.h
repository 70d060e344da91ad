#ifndef MILLRACE_PIPELINE_OP_TABLE_H_
#define MILLRACE_PIPELINE_OP_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/op.h"
#include "pipeline/batch_op.h"
#include "pipeline/sample_op.h"

// The ops of the host program. A plain table that is handed to Open: nothing registers itself. A
// plan names them as custom { op: "..." version: 1 options: "..." }; name, version and options are
// part of its fingerprint, so whoever changes what an op computes raises its version.

namespace millrace::pipeline {

// What an op is made from.
struct OpArgs {
  std::string_view options;  // as in the plan; checking them is the factory's task
  std::string_view stage;    // the stage's name, the identity of its random draws
};

// Thread-compatible while ops are registered; the const methods are thread-safe.
class OpTable {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Op>>(const OpArgs&)>;
  using BatchFactory = std::function<absl::StatusOr<std::unique_ptr<BatchOp>>(const OpArgs&)>;
  enum class Kind { kNone, kSample, kBatch };

  // Adds an op that works on samples, or one that works on finished batches. A name has 1 to 64
  // letters, digits, '_', '-', '.', '/'; a version is at least 1.
  //   INVALID_ARGUMENT  name, version or factory is none
  //   ALREADY_EXISTS    the table has that name and version
  absl::Status Register(std::string_view name, uint32_t version, Factory factory);
  absl::Status RegisterBatch(std::string_view name, uint32_t version, BatchFactory factory);
  // The same for a function on samples that takes no options; spec.stage is filled in.
  //   INVALID_ARGUMENT  also what MakeSampleOp says
  absl::Status RegisterSample(std::string_view name, uint32_t version, SampleOpSpec spec,
                              SampleFunction function);

  // What is registered under that name and version.
  Kind KindOf(std::string_view name, uint32_t version) const;

  // Makes an op. An exception from Resolve is INTERNAL, and one from Apply the INTERNAL error of
  // the row of a run of one row; a run of several rows lets it through (ApplyCaught).
  //   NOT_FOUND         no such op (with the nearest name), or no such version (with those there
  //                     are)
  //   INVALID_ARGUMENT  it is an op of the other kind
  //   INTERNAL          the factory threw, or returned nullptr
  //   other             what the factory says
  absl::StatusOr<std::unique_ptr<Op>> Make(std::string_view name, uint32_t version,
                                           std::string_view options, std::string_view stage) const;
  // The same for an op on batches; a Resolve that changes the schema is INVALID_ARGUMENT, an
  // exception from Apply INTERNAL.
  absl::StatusOr<std::unique_ptr<BatchOp>> MakeBatch(std::string_view name, uint32_t version,
                                                     std::string_view options,
                                                     std::string_view stage) const;

 private:
  struct Entry {
    Factory sample;  // one of the two
    BatchFactory batch;
  };
  using Key = std::pair<std::string, uint32_t>;

  absl::Status Add(std::string_view name, uint32_t version, Entry entry);
  absl::StatusOr<const Entry*> Find(std::string_view name, uint32_t version) const;

  std::map<Key, Entry> entries_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_OP_TABLE_H_
