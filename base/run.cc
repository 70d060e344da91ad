#include "base/run.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

namespace millrace {
namespace {

constexpr size_t kAlignment = 64;

size_t RoundUp(size_t size) { return (size + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

std::byte* RunArena::Allocate(size_t size) {
  size = RoundUp(std::max<size_t>(size, 1));
  while (chunk_ < chunks_.size() && used_ + size > chunks_[chunk_].size) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const size_t bytes = std::max(size, chunk_bytes_) + kAlignment;
    // make_unique_for_overwrite: zeroing would cost a pass over memory that is written anyway.
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(bytes), bytes - kAlignment});
    capacity_bytes_ += bytes;
    used_ = 0;
  }
  const auto base = reinterpret_cast<uintptr_t>(chunks_[chunk_].memory.get());
  auto* piece = reinterpret_cast<std::byte*>(RoundUp(base)) + used_;
  used_ += size;
  return piece;
}

void RunArena::Reset() {
  chunk_ = 0;
  used_ = 0;
}

void Column::SetApart(int64_t row, const void* data, const Shape& shape) {
  if (values_ == nullptr) {
    if (row < num_dense_ && data == dense_row(row) && shape == shape_) return;
    if (data != nullptr && num_dense_ != 0 && shape == shape_) {
      if (places_ == nullptr) MakePlaces();
      places_[row] = data;
      return;
    }
    MakeValues();
  }
  values_[row] = {data, shape};
}

void Column::MakePlaces() {
  const auto count = static_cast<size_t>(num_rows_);
  auto* const places = reinterpret_cast<const void**>(arena_->Allocate(count * sizeof(void*)));
  std::uninitialized_value_construct_n(places, count);
  for (int64_t i = 0; i < num_dense_; ++i) places[i] = dense_row(i);
  places_ = places;
  num_dense_ = -1;
}

void Column::MakeValues() {
  const auto count = static_cast<size_t>(num_rows_);
  auto* const values = reinterpret_cast<Value*>(arena_->Allocate(count * sizeof(Value)));
  std::uninitialized_value_construct_n(values, count);
  for (int64_t i = 0; i < num_rows_; ++i) {
    const ConstTensorView value = at(i);
    values[i] = {value.data, value.shape};
  }
  places_ = nullptr;
  values_ = values;
  num_dense_ = -1;
}

Run::Run(RunArena& arena, uint64_t seed, uint64_t first_position, std::vector<SampleId> ids)
    : arena_(arena),
      seed_(seed),
      first_position_(first_position),
      own_ids_(std::move(ids)),
      ids_(own_ids_) {}

Run::Run(RunArena& arena, uint64_t seed, uint64_t first_position, const SampleId* ids,
         int64_t num_rows)
    : arena_(arena),
      seed_(seed),
      first_position_(first_position),
      ids_(ids, static_cast<size_t>(num_rows)) {}

RandomStream Run::Random(int64_t row, uint64_t op) const {
  const SampleId& id = ids_[row];
  return RandomStream(
      {.seed = seed_, .op = op, .epoch = id.epoch, .record = id.record, .sub_index = id.sub_index});
}

const Column* Run::Find(std::string_view name) const {
  const auto it = std::ranges::find(columns_, name, &Column::name);
  return it == columns_.end() ? nullptr : &*it;
}

const Column& Run::Get(std::string_view name) const {
  const Column* column = Find(name);
  assert(column != nullptr);
  return *column;
}

Column Run::Take(std::string_view name) {
  const auto it = std::ranges::find(columns_, name, &Column::name);
  assert(it != columns_.end());
  Column column = std::move(*it);
  columns_.erase(it);
  return column;
}

Column& Run::Add(std::string_view name, DType dtype) {
  const auto same = std::ranges::find(columns_, name, &Column::name);
  if (same != columns_.end()) columns_.erase(same);
  Column& column = columns_.emplace_back(std::string(name), dtype, num_rows(), arena_);
  FindSlots(column);
  return column;
}

Column Run::Renew(std::string_view name, DType dtype, Column** column) {
  const auto it = std::ranges::find(columns_, name, &Column::name);
  assert(it != columns_.end());
  Column fresh(it->name(), dtype, num_rows(), arena_);
  FindSlots(fresh);
  *column = &*it;
  return std::exchange(*it, std::move(fresh));
}

void Run::FindSlots(Column& column) const {
  const auto slots = std::ranges::find(slots_, column.name_, &FieldSlots::name);
  if (slots != slots_.end() && slots->dtype == column.dtype_) column.slots_ = &*slots;
}

Run Run::Select(std::span<const int64_t> rows, std::vector<SampleId> ids) const {
  assert(rows.size() == ids.size());
  Run selected(arena_, seed_, first_position_, std::move(ids));
  selected.columns_.reserve(columns_.size());
  for (const Column& column : columns_) {
    Column& copy = selected.Add(column.name(), column.dtype());
    for (size_t i = 0; i < rows.size(); ++i) {
      const ConstTensorView value = column.at(rows[i]);
      copy.Set(static_cast<int64_t>(i), value.data, value.shape);
    }
  }
  for (size_t i = 0; !all_ok() && i < rows.size(); ++i) {
    if (!ok(rows[i])) selected.Fail(static_cast<int64_t>(i), errors_[rows[i]]);
  }
  return selected;
}

void* Run::Allocate(Column& column, int64_t row, const Shape& shape) {
  const size_t bytes = static_cast<size_t>(shape.num_elements()) * SizeOf(column.dtype());
  std::byte* const memory = column.slots_ != nullptr && column.slots_->shape == shape
                                ? column.slots_->first_row + static_cast<size_t>(row) * bytes
                                : arena_.Allocate(bytes);
  column.Set(row, memory, shape);
  return memory;
}

std::byte* Run::AllocateAll(const Column& column, const Shape& shape) {
  if (column.slots_ != nullptr && column.slots_->shape == shape) return column.slots_->first_row;
  const size_t bytes = static_cast<size_t>(shape.num_elements()) * SizeOf(column.dtype());
  return arena_.Allocate(static_cast<size_t>(num_rows()) * bytes);
}

void Run::Fail(int64_t row, absl::Status status) {
  if (errors_.empty()) errors_.resize(ids_.size());
  if (errors_[row].ok()) errors_[row] = std::move(status);
}

}  // namespace millrace
