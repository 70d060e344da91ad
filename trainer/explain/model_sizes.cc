#include "trainer/explain/model_sizes.h"

#include "absl/strings/str_cat.h"
#include "base/bytes_text.h"
#include "base/number_text.h"
#include "trainer/explain/layer_table.h"

namespace millrace::trainer {
namespace {

std::string Activations(const ModelCost& cost, uint64_t batch) {
  const auto sample = static_cast<double>(cost.result_bytes);
  if (batch == 0) return absl::StrCat(BytesText(sample), " a sample: the results of all layers");
  return absl::StrCat(BytesText(sample * static_cast<double>(batch)),
                      ": the results of all layers for a batch of ", batch, ", over all ranks");
}

}  // namespace

std::string BytesOfFloats(int64_t count) {
  return BytesText(static_cast<double>(count) * sizeof(float));
}

std::vector<std::pair<std::string, std::string>> ModelSizes(const Model& model, uint64_t batch) {
  const ModelCost cost = CostOf(model);
  int64_t buffers = 0;
  for (const Buffer& buffer : model.buffers) buffers += buffer.shape.num_elements();
  return {
      {"parameters", absl::StrCat(Grouped(model.num_parameters()), " (",
                                  BytesOfFloats(model.num_parameters()), ")")},
      {"buffers", absl::StrCat(Grouped(buffers), " (", BytesOfFloats(buffers), ")")},
      {"FLOPs", absl::StrCat(WithUnit(static_cast<double>(cost.flops)), " a sample, forward: ",
                             WithUnit(static_cast<double>(cost.flops / 2)), " multiply-adds")},
      {"activations", Activations(cost, batch)},
  };
}

}  // namespace millrace::trainer
