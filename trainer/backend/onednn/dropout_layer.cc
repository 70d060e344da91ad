#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "base/philox.h"
#include "trainer/backend/onednn/half_copies.h"
#include "trainer/backend/onednn/layer_compiler.h"

namespace millrace::trainer {
namespace {

// The factors of a layer's values in one step: 0, or 1 / (1 - rate). Those of a sample are drawn
// from a stream of its own, so they are the same in any row of any rank.
struct DropFactors {
  double rate = 0;
  uint64_t name = 0;  // hash of the layer's name
  std::vector<float> values;

  void Draw(const StepInput& step);
};

void DropFactors::Draw(const StepInput& step) {
  const size_t rows = step.valid.size();
  const size_t row_values = values.size() / rows;
  const auto kept = static_cast<float>(1 / (1 - rate));
  for (size_t row = 0; row < rows; ++row) {
    const SampleId id = step.ids.empty() ? SampleId{0, row, 0} : step.ids[row];
    RandomKey key;
    key.seed = Mix64(step.seed ^ Mix64(step.step));
    key.op = name;
    key.epoch = id.epoch;
    key.record = id.record;
    key.sub_index = id.sub_index;
    RandomStream stream(key);
    for (size_t i = 0; i < row_values; ++i) {
      values[row * row_values + i] = stream.NextFloat() < rate ? 0 : kept;
    }
  }
}

// result = from * factors.
void MultiplyInto(const dnnl::memory& from, std::span<const float> factors,
                  const dnnl::memory& result) {
  if (from.get_desc().data_type() == kF32) {
    std::ranges::transform(ValueMemory::Floats(from), factors, ValueMemory::Floats(result).begin(),
                           std::multiplies<>());
    return;
  }
  std::vector<float> values = FloatsOf(from);
  std::ranges::transform(values, factors, values.begin(), std::multiplies<>());
  CopyFloats(values, result);
}

}  // namespace

// In an evaluation the values are there already (ValueMemory).
void CompileDropout(LayerCompiler& compiler) {
  if (!compiler.is_training()) return;
  const auto factors = std::make_shared<DropFactors>();
  factors->rate = std::get<DropRate>(compiler.layer().attributes).rate;
  factors->name = HashName(compiler.layer().name);
  const dnnl::memory source = compiler.source();
  const dnnl::memory output = compiler.output();
  factors->values.resize(FloatsOf(output).size());
  const StepInput* const step = &compiler.step();
  compiler.out.measure.AddKernel([=] { factors->Draw(*step); });
  compiler.out.forward.AddKernel([=] { MultiplyInto(source, factors->values, output); });
  const dnnl::memory gradient = compiler.source_gradient();
  if (!gradient) return;
  const dnnl::memory output_gradient = compiler.output_gradient();
  compiler.out.data.AddKernel([=] { MultiplyInto(output_gradient, factors->values, gradient); });
}

}  // namespace millrace::trainer
