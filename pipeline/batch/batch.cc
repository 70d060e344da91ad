#include "pipeline/batch.h"

#include <algorithm>
#include <string>

#include "pipeline/batch/data.h"

namespace millrace::pipeline {

uint64_t Batch::index() const { return data_->index; }
uint64_t Batch::epoch() const { return data_->epoch; }
bool Batch::ends_epoch() const { return data_->ends_epoch; }
int64_t Batch::num_rows() const { return data_->layout->num_rows; }
int64_t Batch::num_valid_rows() const { return data_->num_valid_rows; }
int64_t Batch::num_global_valid_rows() const { return data_->num_global_valid_rows; }
int64_t Batch::first_global_row() const { return data_->first_global_row; }

std::span<const uint8_t> Batch::valid() const {
  return {data_->valid(), static_cast<size_t>(num_rows())};
}

std::span<const SampleId> Batch::ids() const {
  return {data_->ids(), static_cast<size_t>(num_rows())};
}

std::span<const DamagedSample> Batch::damaged() const { return data_->damaged; }

std::span<const std::string> Batch::names() const { return data_->layout->names; }

ConstTensorView Batch::tensor(size_t i) const {
  const BatchLayout& layout = *data_->layout;
  return {data_->tensor(i), layout.fields[i].dtype, layout.shapes[i]};
}

Shape Batch::row_shape(size_t i, int64_t row) const {
  const BatchLayout& layout = *data_->layout;
  const bool differs = layout.store(i) == RowStore::kPadded || layout.store(i) == RowStore::kRagged;
  return differs ? layout.own[i][static_cast<size_t>(row)] : layout.fields[i].shape;
}

FoundTensor<ConstTensorView> Batch::Find(std::string_view name) const {
  const auto names = this->names();
  const auto it = std::ranges::find(names, name);
  if (it == names.end()) return {std::string(name), names};
  return {tensor(static_cast<size_t>(it - names.begin())), *it};
}

const BatchData& DataOf(const Batch& batch) { return *batch.data_; }

const std::string& Batch::resume_token() const { return data_->resume_token; }

}  // namespace millrace::pipeline
