#include "pipeline/run/run_sample.h"

#include <algorithm>
#include <span>

namespace millrace::pipeline {
namespace {

int64_t BytesOf(const Column& column) {
  int64_t bytes = 0;
  for (int64_t row = 0; row < column.num_rows(); ++row) {
    const ConstTensorView value = column.at(row);
    if (value.data != nullptr) bytes += static_cast<int64_t>(value.size_bytes());
  }
  return bytes;
}

const void* FirstOf(const Column& column) {
  return column.num_rows() == 0 ? nullptr : column.at(0).data;
}

}  // namespace

void RunSample::Request(size_t num_phases, bool weighs) {
  Clear();
  phases_.assign(num_phases, Phase());
  measures_ = true;
  weighs_ = weighs;
}

void RunSample::BeginMeasuring(const Run& run) {
  std::ranges::fill(phases_, Phase());  // a run that threw is worked on again, row by row
  weights_.clear();
  rows_ = run.num_rows();
  first_ = run.id(0);
  since_ns_ = Now();
}

void RunSample::EndPhase(size_t phase, const Run& run) {
  const int64_t now_ns = Now();
  phases_[phase].ns += now_ns - since_ns_;
  since_ns_ = now_ns;
  if (!weighs_) return;
  WeighPhase(phases_[phase], run);
  since_ns_ = Now();
}

void RunSample::WeighPhase(Phase& phase, const Run& run) {
  after_.clear();
  for (const Column& column : run.columns()) {
    after_.push_back({FirstOf(column), BytesOf(column)});
  }
  const auto is_in = [](const Weight& field, std::span<const Weight> fields) {
    return std::ranges::find(fields, field.data, &Weight::data) != fields.end();
  };
  for (const Weight& field : weights_) {
    if (!is_in(field, after_)) phase.bytes_in += field.bytes;
  }
  for (const Weight& field : after_) {
    if (!is_in(field, weights_)) phase.bytes_out += field.bytes;
  }
  std::swap(weights_, after_);
}

void RunSample::FinishMeasuring(int64_t stored_bytes) {
  phases_.back().bytes_out = stored_bytes;
  measures_ = false;
}

void RunSample::Clear() {
  measures_ = weighs_ = false;
  rows_ = 0;
}

}  // namespace millrace::pipeline
