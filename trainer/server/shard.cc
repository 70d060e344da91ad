#include "trainer/server/shard.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "trainer/optimizer/square_sum.h"
#include "trainer/server/protocol.h"

namespace millrace::trainer {
namespace {

absl::Status CheckEnd(std::string_view bytes) {
  if (bytes.empty()) return absl::OkStatus();
  return absl::DataLossError("a payload is too long");
}

ParameterNorms NormsOf(std::span<const float> weights, std::span<const float> gradient) {
  const auto norm = [](std::span<const float> values) {
    double squares[2] = {};
    AddSquares(values, LargestMagnitude(values), values.size(), squares);
    return NormOf(squares);
  };
  return {norm(weights), norm(gradient)};
}

}  // namespace

Shard::Shard(const OptimizerSpec& spec, const Model& model, std::vector<size_t> parameters)
    : spec_(spec), model_(model), parameters_(std::move(parameters)) {
  for (const size_t i : parameters_) {
    weights_.emplace_back(static_cast<size_t>(model.parameters[i].shape.num_elements()));
    weight_bytes_ += weights_.back().size() * sizeof(float);
  }
  sums_ = weights_;
}

uint64_t Shard::all_bytes() const {
  const size_t slots = MakeUpdateRule(spec_)->slots().size();
  return weight_bytes_ * (1 + slots + (spec_.has_ema() ? 1 : 0));
}

absl::Status Shard::Load(std::string_view bytes) {
  const auto take = [&bytes](TensorSet& tensors) {
    for (std::vector<float>& tensor : tensors) {
      MILLRACE_RETURN_IF_ERROR(TakeFloats(bytes, tensor));
    }
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(take(weights_));
  Slots slots;
  std::vector<Piece> pieces;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    pieces.push_back({parameters_[i], 0, weights_[i].size()});
  }
  for (const std::string& name : MakeUpdateRule(spec_)->slots()) {
    TensorSet own = weights_;
    MILLRACE_RETURN_IF_ERROR(take(own));
    slots.push_back({name, TensorSet(model_.parameters.size())});
    for (size_t i = 0; i < own.size(); ++i) {
      slots.back().tensors[parameters_[i]] = std::move(own[i]);
    }
  }
  optimizer_.emplace(spec_, model_, std::move(slots), std::move(pieces));
  if (spec_.has_ema()) {
    TensorSet average = weights_;
    MILLRACE_RETURN_IF_ERROR(take(average));
    average_.emplace(spec_.ema().decay(), spec_.ema().warmup(), std::move(average));
  }
  return CheckEnd(bytes);
}

absl::StatusOr<TensorSet> Shard::TensorsIn(std::string_view bytes) const {
  TensorSet tensors;
  for (const std::vector<float>& weights : weights_) {
    MILLRACE_RETURN_IF_ERROR(TakeFloats(bytes, tensors.emplace_back(weights.size())));
  }
  MILLRACE_RETURN_IF_ERROR(CheckEnd(bytes));
  return tensors;
}

void Shard::FindNorms() {
  std::vector<ParameterNorms> norms(model_.parameters.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (optimizer_->wants_norms(i)) norms[parameters_[i]] = NormsOf(weights_[i], sums_[i]);
  }
  optimizer_->SetNorms(std::move(norms));
}

// Each element is summed in the order of the gradients and divided as the reducer does it, so an
// update has the bits of a step of as many ranks.
void Shard::Apply(const UpdateStep& update, int64_t rows,
                  std::span<const TensorSet* const> gradients) {
  const auto divisor = static_cast<float>(std::max<int64_t>(1, rows));
  for (size_t i = 0; i < weights_.size(); ++i) {
    std::vector<float>& sum = sums_[i];
    sum = (*gradients[0])[i];
    for (const TensorSet* const gradient : gradients.subspan(1)) {
      const std::vector<float>& more = (*gradient)[i];
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
    }
    for (float& value : sum) value /= divisor;
  }
  if (optimizer_->has_norms()) FindNorms();
  for (size_t i = 0; i < weights_.size(); ++i) {
    optimizer_->Apply(i, update, 1, sums_[i], weights_[i]);
  }
  if (average_) average_->Add(update.count, weights_);
}

std::string Shard::WeightsAsBytes() const {
  std::string bytes;
  bytes.reserve(weight_bytes_);
  for (const std::vector<float>& weights : weights_) AppendFloats(weights, bytes);
  return bytes;
}

std::string Shard::AllAsBytes() const {
  std::string bytes;
  bytes.reserve(all_bytes());
  const auto append = [&bytes](const TensorSet& tensors) {
    for (const std::vector<float>& tensor : tensors) AppendFloats(tensor, bytes);
  };
  append(weights_);
  for (const Slot& slot : optimizer_->slots()) append(slot.tensors);
  if (average_) append(average_->tensors());
  return bytes;
}

std::string BytesOf(const AllTensors& tensors, std::span<const size_t> parameters) {
  std::string bytes;
  for (const size_t i : parameters) AppendFloats(tensors.weights[i], bytes);
  for (const Slot& slot : tensors.slots) {
    for (const size_t i : parameters) AppendFloats(slot.tensors[i], bytes);
  }
  return bytes;
}

absl::Status TakeAll(std::string_view bytes, std::span<const size_t> parameters,
                     AllTensors& tensors) {
  for (const size_t i : parameters) {
    MILLRACE_RETURN_IF_ERROR(TakeFloats(bytes, tensors.weights[i]));
  }
  for (Slot& slot : tensors.slots) {
    for (const size_t i : parameters) {
      MILLRACE_RETURN_IF_ERROR(TakeFloats(bytes, slot.tensors[i]));
    }
  }
  return CheckEnd(bytes);
}

absl::Status TakeWeightsOf(std::string_view bytes, std::span<const size_t> parameters,
                           TensorSet& weights) {
  for (const size_t i : parameters) MILLRACE_RETURN_IF_ERROR(TakeFloats(bytes, weights[i]));
  return CheckEnd(bytes);
}

}  // namespace millrace::trainer
