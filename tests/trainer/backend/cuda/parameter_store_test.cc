// The host stands in for the device, which does nothing until it is waited for.

#include "trainer/backend/cuda/parameter_store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/half.h"
#include "tests/trainer/backend/cuda/host_device.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/backend/cuda/device_average.h"
#include "trainer/optimizer/weight_average.h"

namespace millrace::trainer::cuda {
namespace {

using ::testing::HasSubstr;

// Of odd sizes; the weights of the last layer do not go to the device in one piece.
Model MakeStoredNet() {
  return MakeModel(R"(layer { input_layer { shape: [5, 5, 3] } }
    layer { convolution { filters: 7 kernel: 3 } } layer { batch_norm {} } layer { relu {} }
    layer { transposed_convolution { filters: 5 kernel: 2 } }
    layer { fully_connected { outputs: 4099 } } layer { relu {} }
    layer { fully_connected { outputs: 257 } } layer { softmax_cross_entropy {} })");
}

// Each element differs from its neighbours.
TensorSet NumbersFor(const Model& model, float begin) {
  TensorSet tensors;
  for (const Parameter& parameter : model.parameters) {
    std::vector<float>& tensor = tensors.emplace_back(parameter.shape.num_elements());
    for (size_t k = 0; k < tensor.size(); ++k) tensor[k] = begin + static_cast<float>(k % 8191);
  }
  return tensors;
}

class ParameterStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<ParameterStore> Make(StoreOptions options = {}) {
    auto made = ParameterStore::Make(device_, model_, std::move(options));
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  // Gradients in two buckets, in the order of a reducer.
  std::vector<GradientPlace> Places() {
    std::vector<GradientPlace> places(model_.parameters.size());
    for (size_t i = places.size(), begin = 0; i-- > 0;) {
      const bool is_last = i + 2 < places.size();
      places[i] = {memory_.data() + begin, is_last ? size_t{1} : size_t{0}};
      begin += (model_.parameters[i].shape.num_elements() + 15) / 16 * 16;
    }
    return places;
  }

  size_t IndexOf(const std::string& name) const {
    for (size_t i = 0; i < model_.parameters.size(); ++i) {
      if (model_.parameters[i].name == name) return i;
    }
    ADD_FAILURE() << name;
    return 0;
  }

  const Model model_ = MakeStoredNet();
  std::vector<float> memory_ = std::vector<float>(2000000);
  HostDevice device_{HostKernels(), /*defers=*/true};
};

TEST_F(ParameterStoreTest, WeightsComeBackAsTheyWere) {
  for (const bool trains : {false, true}) {
    const auto store = Make({.gradients = trains ? Places() : std::vector<GradientPlace>()});
    const TensorSet weights = NumbersFor(model_, 0.5f);
    ASSERT_TRUE(store->Import(weights).ok());
    TensorSet found;
    ASSERT_TRUE(store->Export(found).ok());
    EXPECT_EQ(found, weights);
  }
}

TEST_F(ParameterStoreTest, TheDeviceHasThemInItsOrder) {
  const auto store = Make({.gradients = Places()});
  const TensorSet weights = NumbersFor(model_, 0.5f);
  ASSERT_TRUE(store->Import(weights).ok());
  for (size_t i = 0; i < weights.size(); ++i) {
    std::vector<float> ordered(weights[i].size());
    ToDeviceOrder(model_.parameters[i], weights[i], ordered);
    const float* const master = store->tensors().parameters[i].master;
    EXPECT_TRUE(std::ranges::equal(ordered, std::span(master, ordered.size()))) << i;
  }
}

TEST_F(ParameterStoreTest, ParametersLieAsTheirGradientsDo) {
  const std::vector<GradientPlace> places = Places();
  const auto store = Make({.gradients = places});
  const DeviceTensors& tensors = store->tensors();
  ASSERT_EQ(store->layout().regions.size(), 2u);
  for (const ArenaLayout::Region& region : store->layout().regions) {
    const DeviceTensors::Parameter& first = tensors.parameters[region.first];
    for (const size_t i : region.parameters) {
      EXPECT_EQ(tensors.parameters[i].gradient, places[i].memory);
      EXPECT_EQ(tensors.parameters[i].master - first.master,
                places[i].memory - places[region.first].memory);
    }
  }
}

TEST_F(ParameterStoreTest, GradientsThatAreCopiedHaveMemoryOfTheirOwn) {
  const auto store = Make({.gradients = Places(), .copies_gradients = true});
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    const float* const gradient = store->tensors().parameters[i].gradient;
    EXPECT_TRUE(gradient < memory_.data() || gradient >= memory_.data() + memory_.size()) << i;
    EXPECT_EQ(gradient - store->tensors().parameters[0].gradient,
              store->tensors().parameters[i].master - store->tensors().parameters[0].master);
  }
}

TEST_F(ParameterStoreTest, ProductsReadRoundedWeights) {
  const TensorSet weights = NumbersFor(model_, 0.3f);
  const auto store = Make({.compute = DType::kBF16});
  ASSERT_TRUE(store->Import(weights).ok());
  size_t products = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const DeviceTensors::Parameter& parameter = store->tensors().parameters[i];
    if (parameter.compute == nullptr) continue;
    ++products;
    const auto* const rounded = static_cast<const BFloat*>(parameter.compute);
    for (size_t k = 0; k < weights[i].size(); ++k) {
      ASSERT_EQ(rounded[k].bits, ToBFloat(parameter.master[k]).bits) << i << "[" << k << "]";
    }
  }
  EXPECT_EQ(products, 4u) << "of two convolutions and two fully connected layers";
}

TEST_F(ParameterStoreTest, ProductsOfFloat32ReadTheMasters) {
  const auto store = Make();
  const DeviceTensors::Parameter& weights = store->tensors().parameters[IndexOf("conv1/weights")];
  EXPECT_EQ(weights.compute, weights.master);
  EXPECT_EQ(store->tensors().parameters[IndexOf("conv1/bias")].compute, nullptr);
}

TEST_F(ParameterStoreTest, BuffersAndSlotsComeBackAsTheyWere) {
  const auto store = Make(
      {.gradients = Places(), .slots = {"adam_m", "adam_v"}, .pieces = WholeParameters(model_)});
  const TensorSet buffers = {{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14}};
  ASSERT_TRUE(store->ImportBuffers(buffers).ok());
  const Slots slots = {{"adam_m", NumbersFor(model_, 0.5f)}, {"adam_v", NumbersFor(model_, 9)}};
  ASSERT_TRUE(store->ImportSlots(slots).ok());
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(buffers[i], std::span(store->tensors().buffers[i], 7)));
  }
  const auto exported = store->ExportSlots();
  ASSERT_TRUE(exported.ok()) << exported.status();
  ASSERT_EQ(exported->size(), 2u);
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_EQ((*exported)[s].name, slots[s].name);
    EXPECT_EQ((*exported)[s].tensors, slots[s].tensors);
  }
}

// As with shards.
TEST_F(ParameterStoreTest, APieceOfASlotHasItsElementsAlone) {
  const size_t i = IndexOf("conv1/weights");
  const auto store = Make({.gradients = Places(), .slots = {"momentum"}, .pieces = {{i, 16, 48}}});
  const Slots slots = {{"momentum", NumbersFor(model_, 0.5f)}};
  ASSERT_TRUE(store->ImportSlots(slots).ok());
  std::vector<float> ordered(slots[0].tensors[i].size());
  ToDeviceOrder(model_.parameters[i], slots[0].tensors[i], ordered);
  EXPECT_TRUE(
      std::ranges::equal(std::span(ordered).subspan(16, 32), std::span(store->slot_at(0, i), 32)));
  EXPECT_EQ(store->slot_layout().size, 32u);
}

TEST_F(ParameterStoreTest, TheHostNeedsLittleMemoryOfItsOwn) {
  const auto store = Make();
  const size_t bytes = device_.host_bytes();
  EXPECT_LE(bytes, size_t{4} << 20);
  TensorSet weights = NumbersFor(model_, 0.5f);
  ASSERT_TRUE(store->Import(weights).ok());
  ASSERT_TRUE(store->Export(weights).ok());
  EXPECT_EQ(device_.host_bytes(), bytes);
}

TEST_F(ParameterStoreTest, TensorsOfAnotherModelAreRefused) {
  const auto store = Make({.gradients = Places(), .slots = {"momentum"}});
  TensorSet weights = NumbersFor(model_, 0.5f);
  weights[IndexOf("fc1/bias")].pop_back();
  const absl::Status wrong_size = store->Import(weights);
  EXPECT_EQ(wrong_size.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong_size.message()), HasSubstr("fc1/bias"));
  weights.pop_back();
  EXPECT_EQ(store->Import(weights).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->ImportBuffers({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->ImportSlots({}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ParameterStoreTest, ACopyThatFailsNamesItsTensor) {
  const auto store = Make();
  const TensorSet buffers(2, std::vector<float>(7));
  int copies = 0;
  device_.fault = [&](std::string_view call, const void*, const void*, size_t) -> absl::Status {
    if (call != "Copy" || ++copies != 2) return absl::OkStatus();
    return absl::InternalError("the bus is on fire");
  };
  const absl::Status status = store->ImportBuffers(buffers);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("on fire"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(model_.buffers[1].name));
}

TEST_F(ParameterStoreTest, NoMemoryIsAnError) {
  for (int failing = 1; failing <= 5; ++failing) {
    int allocations = 0;
    device_.fault = [&](std::string_view call, const void*, const void*, size_t) -> absl::Status {
      if (call != "Allocate" || ++allocations != failing) return absl::OkStatus();
      return absl::ResourceExhaustedError("the device is full");
    };
    const auto made = ParameterStore::Make(
        device_, model_, {.compute = DType::kBF16, .gradients = Places(), .slots = {"momentum"}});
    EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted) << failing;
    EXPECT_EQ(device_.device_bytes(), 0u) << failing;
  }
}

TEST_F(ParameterStoreTest, AWeightThatIsNotFiniteIsFound) {
  const auto store = Make({.compute = DType::kBF16, .gradients = Places()});
  EXPECT_TRUE(*store->AreFinite());
  TensorSet weights = NumbersFor(model_, 0.5f);
  weights.back().back() = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(store->Import(weights).ok());
  EXPECT_FALSE(*store->AreFinite());
  weights.back().back() = 1;
  ASSERT_TRUE(store->Import(weights).ok());
  EXPECT_TRUE(*store->AreFinite());
}

TEST_F(ParameterStoreTest, AnAverageHasTheBitsOfTheHosts) {
  const auto store = Make({.compute = DType::kBF16, .gradients = Places()});
  TensorSet weights = NumbersFor(model_, 0.5f);
  WeightAverage expected(0.75, /*warmup=*/true, weights);
  auto average = DeviceAverage::Make(*store, weights, 0.75, /*warmup=*/true);
  ASSERT_TRUE(average.ok()) << average.status();
  for (uint64_t count = 1; count <= 5; ++count) {
    weights = NumbersFor(model_, 1 / static_cast<float>(count));
    ASSERT_TRUE(store->Import(weights).ok());
    ASSERT_TRUE((*average)->Add(count).ok());
    expected.Add(count, weights);
  }
  const auto exported = (*average)->Export();
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(*exported, expected.tensors());
  EXPECT_NE(*exported, weights);
}

TEST_F(ParameterStoreTest, AnAverageTakesThePlaceOfTheWeights) {
  const auto store = Make({.compute = DType::kBF16, .gradients = Places()});
  const TensorSet weights = NumbersFor(model_, 0.5f);
  const TensorSet start = NumbersFor(model_, 1.5f);
  auto average = DeviceAverage::Make(*store, start, 0.75, false);
  ASSERT_TRUE(average.ok()) << average.status();
  ASSERT_TRUE(store->Import(weights).ok());
  ASSERT_TRUE((*average)->Swap().ok());
  TensorSet found;
  ASSERT_TRUE(store->Export(found).ok());
  EXPECT_EQ(found, start);
  EXPECT_EQ(*(*average)->Export(), weights);
  const size_t last = IndexOf("fc2/weights");
  EXPECT_EQ(static_cast<const BFloat*>(store->tensors().parameters[last].compute)->bits,
            ToBFloat(start[last][0]).bits);
}

}  // namespace
}  // namespace millrace::trainer::cuda
