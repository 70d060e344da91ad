#ifndef MILLRACE_BASE_RUN_H_
#define MILLRACE_BASE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "base/shape.h"
#include "base/tensor.h"

// A run is the unit of parallel work: consecutive positions of the stream as columns. Ops read
// columns and add columns; the memory comes from the run's arena, or, for the last writer of a
// batch's field, straight from the batch's slab (Bind).

namespace millrace {

// Memory that is taken piece by piece and given back all at once. Thread-compatible.
class RunArena {
 public:
  explicit RunArena(size_t chunk_bytes = 256 << 10) : chunk_bytes_(chunk_bytes) {}

  // Returns `size` uninitialised bytes aligned to 64, alive until Reset or destruction.
  std::byte* Allocate(size_t size);
  // Forgets all pieces; keeps the memory for the next run.
  void Reset();
  // Bytes held from the system.
  size_t capacity_bytes() const { return capacity_bytes_; }

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    size_t size;
  };
  const size_t chunk_bytes_;
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;  // the chunk being filled
  size_t used_ = 0;   // bytes used of it
  size_t capacity_bytes_ = 0;
};

// Who a sample is, the same in every world and for every number of threads.
struct SampleId {
  uint64_t epoch = 0;      // how often the source was begun before
  uint64_t record = 0;     // number of the record in the whole source, from 0
  uint64_t sub_index = 0;  // of the sample among those that one record was split into
  friend bool operator==(const SampleId&, const SampleId&) = default;
};

// One column: a value per row. Values borrow: from the arena, a read buffer or a slab.
class Column {
 public:
  Column(std::string name, DType dtype, int64_t num_rows)
      : name_(std::move(name)), dtype_(dtype), data_(num_rows, nullptr), shapes_(num_rows) {}

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  int64_t num_rows() const { return static_cast<int64_t>(data_.size()); }

  ConstTensorView at(int64_t row) const { return {data_[row], dtype_, shapes_[row]}; }
  // The bytes of a kBytes value.
  std::string_view bytes(int64_t row) const {
    return {static_cast<const char*>(data_[row]), static_cast<size_t>(shapes_[row][0])};
  }
  // Points the row at memory that outlives the run's work.
  void Set(int64_t row, const void* data, const Shape& shape) {
    data_[row] = data;
    shapes_[row] = shape;
  }

 private:
  std::string name_;
  DType dtype_;
  std::vector<const void*> data_;
  std::vector<Shape> shapes_;
};

// Where the rows of one field of a batch lie.
struct FieldSlots {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;  // of one row
  std::byte* first_row =
      nullptr;  // the slab's row for the run's row 0; rows follow each other densely
};

// Thread-compatible: one worker at a time.
class Run {
 public:
  // `first_position` is the stream position of row 0. `seed` is the plan's. The arena must outlive
  // the run.
  Run(RunArena& arena, uint64_t seed, uint64_t first_position, std::vector<SampleId> ids);

  int64_t num_rows() const { return static_cast<int64_t>(ids_.size()); }
  const SampleId& id(int64_t row) const { return ids_[row]; }
  uint64_t position(int64_t row) const { return first_position_ + static_cast<uint64_t>(row); }
  RunArena& arena() { return arena_; }

  // The random words of op `op` (HashName of its stage's name) for `row`.
  RandomStream Random(int64_t row, uint64_t op) const;

  // Returns the column, or nullptr.
  const Column* Find(std::string_view name) const;
  // All columns, in the order in which they were added; valid until the next Add or Take.
  std::span<const Column> columns() const { return columns_; }
  // The column that an op's Resolve has checked to be there.
  const Column& Get(std::string_view name) const;
  // Removes the column and returns it; its values stay valid while the run does.
  Column Take(std::string_view name);
  // Adds an empty column, replacing one of that name. The reference lives until the next Add or
  // Take.
  Column& Add(std::string_view name, DType dtype);

  // Returns a run of `rows` of this one (any order, any number of times) under new ids. Values and
  // errors are those of this run, the memory stays shared; nothing is bound. Positions count on
  // from this run's first. REQUIRES: rows.size() == ids.size().
  Run Select(std::span<const int64_t> rows, std::vector<SampleId> ids) const;

  // Returns memory for the value of `row` and points the column there: the slab's row when the
  // column is bound and dtype and shape fit, arena memory otherwise. Uninitialised.
  void* Allocate(Column& column, int64_t row, const Shape& shape);

  // Names where columns added from now on should be stored. Used by the executor before the op that
  // writes a batch's field last. The slots must outlive the run.
  void Bind(std::span<const FieldSlots> slots) { slots_ = slots; }

  // Marks the row bad; ops skip it from then on, the first error stays.
  void Fail(int64_t row, absl::Status status);
  // True while no row has failed.
  bool all_ok() const { return errors_.empty(); }
  bool ok(int64_t row) const { return errors_.empty() || errors_[row].ok(); }
  // OK or what Fail said.
  absl::Status status(int64_t row) const {
    return errors_.empty() ? absl::OkStatus() : errors_[row];
  }

 private:
  RunArena& arena_;
  const uint64_t seed_;
  const uint64_t first_position_;
  const std::vector<SampleId> ids_;
  std::vector<Column> columns_;
  std::vector<absl::Status> errors_;  // empty until the first Fail
  std::span<const FieldSlots> slots_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_RUN_H_
