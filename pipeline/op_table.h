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
#include "pipeline/run_op.h"
#include "pipeline/sample_op.h"

// The ops of the host program: a plain table that is handed to Open. No op registers itself. A plan
// names an op as custom { op: "..." version: 1 options: "..." }. Name, version and options are part
// of the plan's fingerprint, so an op that computes something else gets a new version.

namespace millrace::pipeline {

// The arguments from which an op is made.
struct OpArgs {
  std::string_view options;  // as in the plan; the factory checks them
  std::string_view stage;    // the stage's name, on which its random draws depend
};

// Thread-compatible while ops are registered; the const methods are thread-safe.
class OpTable {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Op>>(const OpArgs&)>;
  using BatchFactory = std::function<absl::StatusOr<std::unique_ptr<BatchOp>>(const OpArgs&)>;
  enum class Kind { kNone, kSample, kBatch };

  // Adds an op that works on samples, or one that works on finished batches. A name has 1 to 64
  // letters, digits, '_', '-', '.', '/'; a version is at least 1.
  //   INVALID_ARGUMENT  the name or the version is not valid, or there is no factory
  //   ALREADY_EXISTS    the table has an op of that name and version
  absl::Status Register(std::string_view name, uint32_t version, Factory factory);
  absl::Status RegisterBatch(std::string_view name, uint32_t version, BatchFactory factory);
  // Adds an op made from a function on samples, which takes no options; spec.stage is filled in.
  //   INVALID_ARGUMENT  also as MakeSampleOp
  absl::Status RegisterSample(std::string_view name, uint32_t version, SampleOpSpec spec,
                              SampleFunction function);
  // Adds one made from a function on runs of samples, in the same way.
  //   INVALID_ARGUMENT  also as MakeRunOp
  absl::Status RegisterRun(std::string_view name, uint32_t version, SampleOpSpec spec,
                           RunFunction function);

  // The kind of the op of that name and version; kNone if the table has none.
  Kind KindOf(std::string_view name, uint32_t version) const;

  // Makes an op on samples. An exception that its Resolve throws is an INTERNAL error; one that its
  // Apply throws is an INTERNAL error of the row if the run has one row, and passes through if the
  // run has several (ApplyCaught).
  //   NOT_FOUND         no such op (the message has the nearest name), or no such version (the
  //                     message has the versions there are)
  //   INVALID_ARGUMENT  the op works on batches
  //   INTERNAL          the factory threw, or returned nullptr
  //   other             the factory's error
  absl::StatusOr<std::unique_ptr<Op>> Make(std::string_view name, uint32_t version,
                                           std::string_view options, std::string_view stage) const;
  // Makes an op on batches, with errors as above. A Resolve that changes the schema is an
  // INVALID_ARGUMENT error; an exception that Apply throws is an INTERNAL error of the batch.
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
