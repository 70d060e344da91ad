#ifndef MILLRACE_PIPELINE_PLAN_PHYSICAL_H_
#define MILLRACE_PIPELINE_PLAN_PHYSICAL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "augment/batch_mixing.h"
#include "base/op.h"
#include "base/schema.h"
#include "pipeline/predicate.h"
#include "readers/container.h"
#include "readers/csv_columns.h"

// The plan that the optimizer hands to the executor: an order to evaluate, cuts to settle, ops to
// apply, a batch to fill.

namespace millrace::pipeline {

// The field of a range's samples, and that of an image_folder's beside the record.
inline constexpr char kValueField[] = "value";
inline constexpr char kLabelField[] = "label";

// Where records come from. A plan has one, or several under a concatenate, mix or zip; records are
// numbered through all of them in the order of this list.
struct SourceSpec {
  enum class Kind { kFiles, kRange, kPush, kImageFolder, kMemory };
  Kind kind = Kind::kFiles;
  std::string stage;
  // kFiles
  readers::ContainerOptions container;
  std::vector<std::string> file_patterns;
  std::vector<std::string> dali_index;  // index files; none: the files tell where records are
  std::string compression;              // "auto", "none", "gzip", "zlib", "zstd"
  readers::CsvColumns columns;          // the columns that headers are to name
  bool ignore_header_names = false;     // kFiles: true if columns are taken by their places
  bool verify_crc = true;               // kFiles: true if checksums of records are checked
  bool resync = false;                  // kFiles: true if a stretch of damage is a damaged record
  std::string io = "pread";             // kFiles: "pread", "mmap", "direct"
  bool drop_behind = false;         // kFiles: true if the page cache drops the bytes that were read
  uint64_t access_point_bytes = 0;  // kFiles: RecordSourceOptions::span_bytes
  // kImageFolder
  std::string folder;
  std::optional<int64_t> label;      // the label of all images
  std::vector<std::string> classes;  // the names of the classes, by label
  std::string classes_file;          // the file that has these names; empty: none
  bool strict = false;               // true if an image of an unknown kind is an error
  uint64_t max_record_bytes = 0;     // kFiles, kImageFolder
  uint64_t count = 0;                // kRange
};

// Blocks of a global_shuffle's window, unless the plan says otherwise.
inline constexpr uint64_t kWindowBlocks = 16;

// One step of the order, from the source outwards; no payload moves.
struct OrderStep {
  enum class Kind { kInterleave, kShuffle, kGlobalShuffle, kShard, kRepeat, kTake, kSkip };
  Kind kind = Kind::kTake;
  // kRepeat: epochs (0 for ever); kTake, kSkip: elements; kShuffle: buffer size; kShard: shards;
  // kInterleave: cycle length; kGlobalShuffle: bytes of a block (0: single records)
  uint64_t count = 0;
  // kShard: index; kInterleave: block length; kGlobalShuffle: window (0: kWindowBlocks)
  uint64_t second = 0;
  bool shuffle_files = false;  // kInterleave: true if the files are shuffled
  bool by_bytes = false;       // kShard: true if shards have about as many bytes
  uint64_t key = 0;            // shuffles, shuffle_files: HashName of the stage's name
  std::string stage;           // the name of the stage, for messages and explain
};

// A source, or a join of orders, and the steps behind it.
struct OrderPlan {
  enum class Root { kSource, kConcatenate, kMix };
  Root root = Root::kSource;
  size_t source = 0;              // kSource: index into PhysicalPlan::sources
  std::vector<OrderPlan> inputs;  // the inputs of a join
  std::vector<double> weights;    // kMix, one per input
  uint64_t key = 0;               // kMix: HashName of the stage's name
  std::string stage;              // the name of the join
  std::vector<OrderStep> steps;
};

// Present when the source of the plan is a zip: to PhysicalPlan::order (or a window's) it is source
// 0, and there is no other.
struct ZipPlan {
  struct Input {
    OrderPlan order;       // the order of the input, over PhysicalPlan::sources
    std::string field;     // the field of the samples that it fills
    bool numbers = false;  // true if it is int64 numbers of a range; else records
  };
  std::string stage;
  std::vector<Input> inputs;
};

// Present when samples are windows over other samples, their elements: to PhysicalPlan::order the
// windows are source 0, and there is no other.
struct WindowPlan {
  std::string stage;
  OrderPlan order;  // the order of the elements, over PhysicalPlan::sources or the zip
  uint64_t size = 0;
  uint64_t shift = 0;           // elements from a window's first to the next one's
  uint64_t stride = 0;          // elements from one of a window to its next
  bool drop_remainder = false;  // true if windows that are not full are left out
};

struct PhysicalOp {
  std::string stage;       // the stage's name
  std::string summary;     // the line for explain
  std::unique_ptr<Op> op;  // the resolved op
  // Batch fields that this op writes last: stored straight into the slab.
  std::vector<std::string> binds;
};

// One step of pass 1, which finds out what becomes of a record and touches nothing else.
struct ExamineStep {
  enum class Kind { kOp, kFilter, kUnbatch };
  Kind kind = Kind::kOp;
  PhysicalOp op;                    // kOp
  std::string stage;                // all kinds: the name of the stage
  std::optional<Predicate> filter;  // kFilter
  std::vector<std::string> split;   // kUnbatch: the fields that are split, of those present
};

struct PhysicalPlan;

// Present when filters are materialized: they decide at Open which records of the sources there
// are, and the order knows no others.
struct SelectPlan {
  // The sources, the seed, and a cut of the filters alone with the ops that they need.
  std::shared_ptr<const PhysicalPlan> scan;
  std::string key;  // a text, equal only where the same records are kept of the same data
};

// Present when lengths are kept: what pass 1 would find is in a table beside the index.
struct LengthsPlan {
  // The sources, the seed, the batch's schema, and the cut.
  std::shared_ptr<const PhysicalPlan> scan;
  std::string key;  // a text, equal only where the same is found of the same data
};

// A step over the rows that are left after a cut, lane by lane.
struct SettleStep {
  enum class Kind { kTake, kSkip, kShuffle };
  Kind kind = Kind::kTake;
  // The count over the whole stream: lane l of L has count (l+1)/L - count l/L of it, rounded down.
  uint64_t count = 0;
  // The number of filters in front of the step; rows that a later filter drops still count here.
  int after_filters = 0;
  uint64_t key = 0;  // kShuffle
  std::string stage;
};

// Present when a stage changes how many rows there are by looking at them.
struct CutPlan {
  std::vector<ExamineStep> examine;  // the steps; ops as filters, unbatch and extents need
  int num_filters = 0;
  // True if one of these ops draws at random, or is the host program's: its rows of a record may
  // differ from epoch to epoch.
  bool may_vary = false;
  std::vector<SettleStep> settle;  // the steps in order
  // Batch fields whose extents differ from row to row: pass 1 tells them, in this order, all
  // extents of each field.
  std::vector<std::string> extents_of;
  // A field of one whole number whose value pass 1 tells behind the extents; "": none.
  std::string value_of;
};

struct BatchSpec {
  enum class Kind { kFixed, kPadded, kRagged, kBucket };
  struct Padding {
    std::string field;
    int64_t int_value = 0;
    double float_value = 0;
  };
  Kind kind = Kind::kFixed;
  std::string stage;
  uint64_t size = 0;             // rows of the global batch; kBucket: of the largest bucket
  bool drop_remainder = false;   // true if a last batch that is not full is left out
  std::vector<Padding> padding;  // kPadded, kBucket: the padding of fields; of other fields: zero
  // kBucket
  std::string length_field;
  bool length_is_value = false;  // true if the value of that field is the length, not its extent
  std::vector<uint64_t> boundaries;
  std::vector<uint64_t> bucket_sizes;
  bool pad_to_boundary = false;  // true if rows are padded to the bucket's boundary - 1
  bool keep_lengths = false;     // true if PhysicalPlan::lengths is to be there
};

// An op that works on whole batches, behind the batch stage: one that mixes rows, or one of the
// host program.
struct BatchOpSpec {
  std::string stage;       // the name of the stage, and of its random draws
  std::string where = {};  // FILE:LINE:COLUMN of the stage
  std::optional<augment::BatchMixingOptions> mixing = {};  // if set, nothing below holds
  std::string op;                                          // the name of the op, as registered
  uint32_t version = 0;
  std::string options;
};

// The policy for damaged samples, and its limits.
struct DamageSpec {
  enum class Policy { kFail, kSkip, kMask, kReplace };
  Policy policy = Policy::kFail;
  uint64_t max_count = 0;  // the most damaged samples; 0: no limit
  double max_share = 0;    // the largest fraction of all samples; 0: no limit
};

struct PhysicalPlan {
  std::vector<SourceSpec> sources;
  std::optional<ZipPlan> zip;
  std::optional<WindowPlan> window;
  std::optional<SelectPlan> select;
  std::optional<LengthsPlan> lengths;
  // Order, before any cut and the batch stage, and after the batch stage (only kRepeat, kTake,
  // kSkip, over whole batches).
  uint64_t seed = 0;
  uint32_t semantics_version = 1;
  OrderPlan order;
  std::vector<OrderStep> batch_order;
  // Cuts. Without one the rows of a batch are arithmetic.
  std::optional<CutPlan> cut;
  uint64_t lanes = 1;  // the number of lanes; divides the batch size (of every bucket)
  // The number of lanes that a token tells of, where more are dealt for the world (LanesAreFree);
  // 0: `lanes`.
  uint64_t token_lanes = 0;
  // The ops on the rows that are left: one-to-one, on (record, sub-index). Those in front of a
  // WindowOp work on its elements.
  std::vector<PhysicalOp> ops;
  Schema batch_schema;  // the sample; unknown extents and kBytes only where `batch` takes them
  // The kind is never kPadded or kRagged without a field whose extents differ: such a batch is
  // kFixed.
  BatchSpec batch;
  std::vector<BatchOpSpec> batch_ops;  // the ops over whole batches, in order
  DamageSpec damage;
  int prefetch_batches = 0;  // 0: as many small batches as fit a MiB (DefaultPrefetch)
  // Rules that fired, for explain: "map_into_batch: image stored by normalize".
  std::vector<std::string> rules;
  uint64_t plan_fingerprint = 0;
};

// The order of the records, or of a zip's elements: that in front of windows, if there are any.
const OrderPlan& RecordOrderOf(const PhysicalPlan& plan);

// True if every element of the order is one row of a batch, in order: no filter, unbatch, step or
// bucket changes that, and the cut only tells extents. Then the rows of a batch are the same for
// any number of lanes. False where records are pushed: every rank looks at them all.
bool LanesAreFree(const PhysicalPlan& plan);

// True if a take stands behind the cut.
bool HasTake(const CutPlan& cut);

// True if every rank settles the lanes of all ranks, so that it knows every batch whole: the input
// has an end, or a take or buckets need all lanes. `endless`: true if the order has no end; an
// input that grows has one. REQUIRES: plan.cut.
bool RanksKnowBatches(const PhysicalPlan& plan, bool endless);

// True if the ranks divide the rows of each batch, since there are more ranks than lanes to divide
// (S-CUT-21). Of free lanes there are as many as ranks once they are dealt.
bool RanksDivideRows(const PhysicalPlan& plan, int world, bool endless);

// Returns the rows of the smallest batch that is full: of a plan with buckets, of one of them.
uint64_t SmallestBatch(const PhysicalPlan& plan);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_PHYSICAL_H_
