// The library has quick code for every primitive of the networks that `millrace model` writes.

#include <gmock/gmock.h>

#include "tests/trainer/model/test_nets.h"
#include "trainer/backend/onednn/network.h"
#include "trainer/models.h"

namespace millrace::trainer {
namespace {

std::vector<std::string> ReferenceLayers(const Model& model, Precision precision) {
  const TensorSet weights = MakeZeros(model);
  const TensorSet buffers = MakeInitialBuffers(model);
  TensorSet gradients = MakeZeros(model);
  const std::vector<std::span<float>> spans = Spans(gradients);
  BackendOptions options(1);
  options.precision = precision;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return OneDnnNetwork({model, weights, buffers, spans}, 4, NetworkUse::kTraining, options, engine)
      .LayersWithReferenceCode();
}

bool HasAvx512() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa != dnnl::cpu_isa::sse41 && isa != dnnl::cpu_isa::avx && isa != dnnl::cpu_isa::avx2;
}

TEST(CodeTest, NoLayerOfTheNetworksHasReferenceCode) {
  if (!HasAvx512()) GTEST_SKIP() << "the processor has no AVX-512";
  for (const std::string& name : NetworkNames()) {
    SCOPED_TRACE(name);
    const auto text = WriteModel(name, {});
    ASSERT_TRUE(text.ok()) << text.status();
    const bool has_loss = name != "cosmogan_generator";
    const Model model = MakeModel(*text, has_loss ? ModelEnd::kLosses : ModelEnd::kOutput);
    EXPECT_THAT(ReferenceLayers(model, Precision::kFloat32), ::testing::IsEmpty());
    EXPECT_THAT(ReferenceLayers(model, Precision::kBFloat16), ::testing::IsEmpty());
  }
}

// An image by pixels that becomes one by blocks has no other.
TEST(CodeTest, ReferenceCodeIsNamed) {
  using dnnl::memory;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::desc source({1, 3, 8, 8}, kHalf, memory::format_tag::nhwc);
  const memory::desc weights({16, 3, 3, 3}, kHalf, memory::format_tag::any);
  const memory::desc output({1, 16, 6, 6}, kHalf, memory::format_tag::nChw16c);
  const dnnl::convolution_forward::primitive_desc forward({dnnl::prop_kind::forward_training,
                                                           dnnl::algorithm::convolution_direct,
                                                           source,
                                                           weights,
                                                           output,
                                                           {1, 1},
                                                           {0, 0},
                                                           {0, 0}},
                                                          engine);
  OperationList list;
  list.Add(dnnl::convolution_forward(forward), {});
  EXPECT_THAT(list.codes(), ::testing::ElementsAre(::testing::StartsWith("ref")));
}

}  // namespace
}  // namespace millrace::trainer
