#ifndef MILLRACE_BASE_RUN_H_
#define MILLRACE_BASE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
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
  // A place between pieces. Release forgets all pieces that were allocated since it was taken.
  struct Mark {
    size_t chunk = 0;
    size_t used = 0;
  };
  Mark mark() const { return {chunk_, used_}; }
  void Release(const Mark& mark) {
    chunk_ = mark.chunk;
    used_ = mark.used;
  }
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

// Releases, at its end, the pieces allocated during its life: for a row's scratch, not its values.
class ArenaScratch {
 public:
  explicit ArenaScratch(RunArena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScratch() { arena_.Release(mark_); }
  ArenaScratch(const ArenaScratch&) = delete;
  ArenaScratch& operator=(const ArenaScratch&) = delete;

 private:
  RunArena& arena_;
  const RunArena::Mark mark_;
};

// The identity of a sample, the same in every world and for every number of threads.
struct SampleId {
  uint64_t epoch = 0;      // number of earlier passes over the source
  uint64_t record = 0;     // number of the record in the whole source, from 0
  uint64_t sub_index = 0;  // number of the sample among those that its record was split into
  friend bool operator==(const SampleId&, const SampleId&) = default;
};

// The place of the rows of one field of a batch.
struct FieldSlots {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;  // shape of one row
  std::byte* first_row =
      nullptr;  // the slab's row for the run's row 0; rows follow each other densely
};

// One column: a value per row. Values borrow: from the arena, a read buffer or a slab.
//
// Most columns are dense: rows of one shape at equal distances, as decoded values in a slab are,
// and records of one length in a read buffer. Such a column is an address, a distance and a shape;
// only when a row breaks the pattern does every row get an address and a shape of its own.
class Column {
 public:
  // The arena must outlive the column.
  Column(std::string name, DType dtype, int64_t num_rows, RunArena& arena)
      : name_(std::move(name)), dtype_(dtype), num_rows_(num_rows), arena_(&arena) {}

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  int64_t num_rows() const { return num_rows_; }

  // A row that was never set has no data.
  ConstTensorView at(int64_t row) const {
    if (places_ != nullptr) {
      return {places_[row], dtype_, places_[row] == nullptr ? Shape() : shape_};
    }
    if (values_ != nullptr) return {values_[row].data, dtype_, values_[row].shape};
    if (row >= num_dense_) return {nullptr, dtype_, Shape()};
    return {dense_row(row), dtype_, shape_};
  }
  // The bytes of a kBytes value.
  std::string_view bytes(int64_t row) const {
    const ConstTensorView value = at(row);
    return {static_cast<const char*>(value.data), static_cast<size_t>(value.shape[0])};
  }
  // Points the row at memory that outlives the run's work. Fastest in the order of rows.
  void Set(int64_t row, const void* data, const Shape& shape) {
    if (row == num_dense_ && data != nullptr && Continues(data, shape)) {
      ++num_dense_;
    } else {
      SetApart(row, data, shape);
    }
  }
  // Points every row at once: row r at first + r * stride_bytes.
  void SetAll(const void* first, int64_t stride_bytes, const Shape& shape) {
    places_ = nullptr;
    values_ = nullptr;
    first_ = static_cast<const std::byte*>(first);
    stride_bytes_ = stride_bytes;
    shape_ = shape;
    num_dense_ = num_rows_;
  }

  // True if every row is set and rows have one shape and lie stride_bytes() apart. Only then the
  // next three are valid.
  bool is_dense() const { return num_dense_ == num_rows_; }
  const std::byte* first() const { return first_; }
  int64_t stride_bytes() const { return stride_bytes_; }
  const Shape& row_shape() const { return shape_; }
  // If not dense: the place of each row, if all set rows have one shape, row_shape(); null for rows
  // that are not set. nullptr if shapes differ.
  const void* const* places() const { return places_; }

 private:
  friend class Run;
  struct Value {
    const void* data = nullptr;
    Shape shape;
  };

  const std::byte* dense_row(int64_t row) const { return first_ + row * stride_bytes_; }
  bool Continues(const void* data, const Shape& shape);
  void SetApart(int64_t row, const void* data, const Shape& shape);
  void MakePlaces();
  void MakeValues();

  std::string name_;
  DType dtype_;
  int64_t num_rows_;
  RunArena* arena_;
  const FieldSlots* slots_ = nullptr;  // place for values of Run::Allocate; set by Run::Add
  // Rows [0, num_dense_) are dense; the others are not set. -1 once places_ or values_ holds every
  // row.
  int64_t num_dense_ = 0;
  const std::byte* first_ = nullptr;
  int64_t stride_bytes_ = 0;
  Shape shape_;
  // In the arena, at most one of them: places of rows of one shape, shape_, or values of any rows.
  const void** places_ = nullptr;
  Value* values_ = nullptr;
};

inline bool Column::Continues(const void* data, const Shape& shape) {
  const auto* bytes = static_cast<const std::byte*>(data);
  if (num_dense_ >= 2) return bytes == dense_row(num_dense_) && shape == shape_;
  if (num_dense_ == 0) {
    first_ = bytes;
    shape_ = shape;
    return true;
  }
  // The two rows may lie in different allocations, so their distance is one of addresses.
  stride_bytes_ = static_cast<int64_t>(reinterpret_cast<uintptr_t>(bytes) -
                                       reinterpret_cast<uintptr_t>(first_));
  return shape == shape_;
}

// Thread-compatible: one worker at a time.
class Run {
 public:
  // `first_position` is the stream position of row 0. `seed` is the plan's. The arena must outlive
  // the run.
  Run(RunArena& arena, uint64_t seed, uint64_t first_position, std::vector<SampleId> ids);
  // The same over `num_rows` ids that must outlive the run.
  Run(RunArena& arena, uint64_t seed, uint64_t first_position, const SampleId* ids,
      int64_t num_rows);
  Run(Run&&) = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

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
  // The same, for an op that fills several columns row by row.
  std::span<Column> columns() { return columns_; }
  // The column that an op's Resolve has checked to be there.
  const Column& Get(std::string_view name) const;
  // Removes the column and returns it; its values stay valid while the run does.
  Column Take(std::string_view name);
  // Adds an empty column, replacing one of that name. The reference lives until the next Add or
  // Take.
  Column& Add(std::string_view name, DType dtype);

  // Replaces the column, in its place, by an empty one of `dtype`, and returns the old one, as Take
  // and Add do. `column` is set to the new one; references to other columns stay valid.
  Column Renew(std::string_view name, DType dtype, Column** column);

  // Returns a run of `rows` of this one (any order, any number of times) under new ids. Values and
  // errors are those of this run, the memory stays shared; nothing is bound. Positions count on
  // from this run's first. REQUIRES: rows.size() == ids.size().
  Run Select(std::span<const int64_t> rows, std::vector<SampleId> ids) const;

  // Returns memory for the value of `row` and points the column there: the slab's row when the
  // column is bound and dtype and shape fit, arena memory otherwise. Uninitialised.
  void* Allocate(Column& column, int64_t row, const Shape& shape);
  // Returns memory for a value of `shape` of every row, one after the other, without pointing the
  // column there.
  std::byte* AllocateAll(const Column& column, const Shape& shape);

  // Sets the places where columns added from now on should be stored. Used by the executor before
  // the op that writes a batch's field last. The slots must outlive the run.
  void Bind(std::span<const FieldSlots> slots) { slots_ = slots; }

  // Marks the row as bad: ops skip it from then on. The first error stays.
  void Fail(int64_t row, absl::Status status);
  // True while no row has failed.
  bool all_ok() const { return errors_.empty(); }
  bool ok(int64_t row) const { return errors_.empty() || errors_[row].ok(); }
  // OK, or the status given to Fail.
  absl::Status status(int64_t row) const {
    return errors_.empty() ? absl::OkStatus() : errors_[row];
  }

 private:
  // Names the slots that are bound for the column, if there are any.
  void FindSlots(Column& column) const;

  RunArena& arena_;
  const uint64_t seed_;
  const uint64_t first_position_;
  std::vector<SampleId> own_ids_;  // empty when borrowed
  std::span<const SampleId> ids_;
  absl::InlinedVector<Column, 4> columns_;  // most runs have no more
  std::vector<absl::Status> errors_;        // empty until the first Fail
  std::span<const FieldSlots> slots_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_RUN_H_
