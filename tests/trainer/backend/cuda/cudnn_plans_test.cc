// That cuDNN has plans for the products of all networks that millrace writes, on cards that are not
// here. cuDNN knows a card by its properties; those in testdata/ were put together from what is
// known of these cards, and not yet written by cuDNN on one (CudnnProducts::DeviceProperties).
//
// The names of the plans, and how many there are, are those of testdata/plans.golden for each card,
// which
//   MILLRACE_REGENERATE=1 ctest --test-dir build/cuda -R cudnn_plans
// writes anew. Other versions of cuDNN have other plans; only their number must not be 0.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "tests/messages.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/backend/cuda/cudnn/products.h"
#include "trainer/backend/cuda/products_of.h"
#include "trainer/models.h"

namespace millrace::trainer::cuda {
namespace {

constexpr char kGolden[] = "plans.golden";

using Specs = std::map<std::string, ProductSpec>;  // by their descriptions

std::string PathOf(const std::string& name) {
  const char* const source = std::getenv("MILLRACE_SOURCE_DIR");
  return absl::StrCat(source == nullptr ? "." : source, "/tests/trainer/backend/cuda/testdata/",
                      name);
}

std::string ReadFile(const std::string& name) {
  std::stringstream text;
  text << std::ifstream(PathOf(name)).rdbuf();
  EXPECT_FALSE(text.str().empty()) << PathOf(name);
  return text.str();
}

Model Network(const std::string& name) {
  const absl::StatusOr<std::string> text = WriteModel(name, {});
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return Model();
  return MakeModel(*text, name == "cosmogan_generator" ? ModelEnd::kOutput : ModelEnd::kLosses);
}

void Add(const ProductSpec& spec, Specs& specs) { specs.emplace(Describe(spec), spec); }

void Add(const std::optional<ProductSpec>& spec, Specs& specs) {
  if (spec) Add(*spec, specs);
}

// The products of a training of each network. An adversarial job needs gradients of inputs.
Specs ProductsOfAll(int64_t rows, ProductTypes types) {
  Specs specs;
  for (const std::string& name : NetworkNames()) {
    const NetworkUse use =
        name == "cosmogan_discriminator" ? NetworkUse::kInputGradients : NetworkUse::kTraining;
    for (const LayerProducts& products : ProductsOf(Network(name), rows, use, types)) {
      Add(products.forward, specs);
      Add(products.data_gradient, specs);
      Add(products.weight_gradient, specs);
    }
  }
  return specs;
}

size_t ReadersOf(const Model& model, int value) {
  return std::ranges::count_if(model.layers, [&](const Layer& layer) {
    return std::ranges::find(layer.inputs, value) != layer.inputs.end();
  });
}

// The epilogues that they may have, whether or not cuDNN has them.
Specs EpiloguesOfAll(int64_t rows, ProductTypes types) {
  Specs specs;
  for (const std::string& name : NetworkNames()) {
    const Model model = Network(name);
    for (LayerProducts& products : ProductsOf(model, rows, NetworkUse::kTraining, types)) {
      const Layer& layer = model.layers[products.layer];
      if (products.forward.pass == ProductPass::kForward && layer.bias >= 0) {
        products.forward.has_bias = true;
        products.forward.has_relu = products.forward.result == types.type;
        Add(products.forward, specs);
      }
      if (products.data_gradient && ReadersOf(model, layer.inputs[0]) > 1) {
        products.data_gradient->has_addend = true;
        Add(products.data_gradient, specs);
      }
    }
  }
  return specs;
}

std::string LineOf(const std::string& description, const absl::StatusOr<PlanChoice>& choice) {
  if (!choice.ok()) return absl::StrCat(description, ": none\n");
  return absl::StrCat(description, ": ", choice->num_plans, ", ", choice->name, ", ",
                      choice->workspace_bytes, " bytes\n");
}

class CudnnPlansTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto products =
        CudnnProducts::Make({.device_properties = ReadFile(absl::StrCat(GetParam(), ".json"))});
    const bool must_be_there = std::getenv("MILLRACE_CUDNN_LIBRARY") != nullptr;
    if (absl::IsUnimplemented(products.status()) ||
        (absl::IsFailedPrecondition(products.status()) && !must_be_there)) {
      GTEST_SKIP() << products.status();
    }
    ASSERT_TRUE(products.ok()) << products.status();
    products_ = *std::move(products);
  }

  void ExpectPlans(const Specs& specs) {
    EXPECT_GT(specs.size(), 50u);
    for (const auto& [description, spec] : specs) {
      const auto choice = products_->Choose(spec);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_FALSE(choice->name.empty()) << description;
    }
  }

  std::unique_ptr<CudnnProducts> products_;
};

// A 3x3 convolution of ResNet-50.
ProductSpec Convolution() {
  ProductSpec spec;
  spec.rows = 64;
  spec.height = spec.width = spec.out_height = spec.out_width = 14;
  spec.channels = spec.filters = 256;
  spec.window.kernel = {3, 3};
  spec.window.padding = {1, 1, 1, 1};
  spec.type = spec.result = DType::kBF16;
  return spec;
}

TEST_P(CudnnPlansTest, AProductIsMadeOfTheChosenPlan) {
  for (const ProductPass pass :
       {ProductPass::kForward, ProductPass::kDataGradient, ProductPass::kWeightGradient}) {
    ProductSpec spec = Convolution();
    spec.pass = pass;
    const auto choice = products_->Choose(spec);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_GT(choice->num_plans, 1);
    const auto product = products_->MakeProduct(spec);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ((*product)->Describe(), choice->name);
    EXPECT_EQ((*product)->workspace_bytes(), static_cast<size_t>(choice->workspace_bytes));
    EXPECT_TRUE(absl::IsInternal((*product)->Run(nullptr, {}, nullptr)));
  }
}

absl::Status OnDevice(const std::function<absl::Status()>& body) { return body(); }

TEST_P(CudnnPlansTest, TheFirstPlansBeginWithTheChosenOne) {
  for (const ProductPass pass :
       {ProductPass::kForward, ProductPass::kDataGradient, ProductPass::kWeightGradient}) {
    ProductSpec spec = Convolution();
    spec.pass = pass;
    const auto choice = products_->Choose(spec);
    const auto plans = products_->PlansOf(spec, 8);
    ASSERT_TRUE(choice.ok() && plans.ok()) << choice.status() << plans.status();
    EXPECT_GT(plans->size(), 1u);
    EXPECT_LE(plans->size(), 8u);
    EXPECT_EQ((*plans)[0], choice->name);
    EXPECT_EQ(std::set<std::string>(plans->begin(), plans->end()).size(), plans->size());
  }
}

TEST_P(CudnnPlansTest, ProductsAreMadeByNameInSeveralThreads) {
  const ProductSpec spec = Convolution();
  const auto plans = products_->PlansOf(spec, 8);
  ASSERT_TRUE(plans.ok()) << plans.status();
  std::vector<ProductRequest> requests;
  for (const std::string& plan : *plans) requests.push_back({spec, plan});
  requests.push_back({spec});
  requests.push_back({spec, "eng0_k999=1"});
  for (const int threads : {1, 3, 100}) {
    const std::vector<MadeProduct> made = products_->MakeProducts(requests, threads, OnDevice);
    ASSERT_EQ(made.size(), requests.size());
    for (size_t i = 0; i < plans->size(); ++i) {
      ASSERT_TRUE(made[i].ok()) << made[i].status();
      EXPECT_EQ((*made[i])->Describe(), (*plans)[i]);
    }
    ASSERT_TRUE(made[plans->size()].ok()) << made[plans->size()].status();
    EXPECT_EQ((*made[plans->size()])->Describe(), (*plans)[0]);
    EXPECT_TRUE(absl::IsNotFound(made.back().status())) << made.back().status();
  }
  EXPECT_TRUE(products_->MakeProducts({}, 4, OnDevice).empty());
}

TEST_P(CudnnPlansTest, ProductsOutliveTheirMaker) {
  const auto product = products_->MakeProduct(Convolution());
  ASSERT_TRUE(product.ok()) << product.status();
  products_.reset();
  EXPECT_NE((*product)->Describe(), "");
}

TEST_P(CudnnPlansTest, ASpecThatCannotBeIsRefused) {
  ProductSpec spec = Convolution();
  spec.window.groups = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(products_->Choose(spec).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(products_->MakeProduct(spec).status()));
}

// With float32 weight gradients of bfloat16, cuDNN 9 wants an even number of channels.
TEST_P(CudnnPlansTest, AProductWithoutAPlanIsNamed) {
  ProductSpec spec = Convolution();
  spec.pass = ProductPass::kWeightGradient;
  spec.channels = 1;
  spec.result = DType::kF32;
  for (const absl::Status& status :
       {products_->Choose(spec).status(), products_->MakeProduct(spec).status(),
        products_->PlansOf(spec, 8).status()}) {
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(ToStd(status.message())),
                testing::StartsWith(
                    absl::StrCat(products_->Describe(), " has no plan for: ", Describe(spec))));
  }
}

TEST_P(CudnnPlansTest, FurtherProductsShareTheLibrary) {
  EXPECT_TRUE(CudnnProducts::Make({.device_properties = products_->DeviceProperties()}).ok());
}

// ctest runs it with a driver that has no device.
TEST_P(CudnnPlansTest, AnAbsentDeviceIsSaid) {
  const auto products = CudnnProducts::Make({});
  if (products.ok()) GTEST_SKIP() << "there is one";
  EXPECT_TRUE(absl::IsFailedPrecondition(products.status())) << products.status();
  EXPECT_THAT(std::string(ToStd(products.status().message())),
              testing::HasSubstr("cannot be used on the current device: cudnnCreate: "));
}

TEST_P(CudnnPlansTest, AnotherLibraryIsRefused) {
  messages::HideInMessages(FAKE_CUDNN, "fake");
  EXPECT_MESSAGE(CudnnProducts::Make({.library = FAKE_CUDNN}).status(),
                 absl::StatusCode::kFailedPrecondition);
}

TEST_P(CudnnPlansTest, PropertiesThatAreNoneAreRefused) {
  const auto products = CudnnProducts::Make({.device_properties = "no JSON"});
  EXPECT_TRUE(absl::IsInvalidArgument(products.status())) << products.status();
}

TEST_P(CudnnPlansTest, EveryProductOf64RowsHasAPlan) {
  ExpectPlans(ProductsOfAll(64, {DType::kBF16}));
  ExpectPlans(ProductsOfAll(64, {DType::kF16}));
}

TEST_P(CudnnPlansTest, EveryProductOfFloat32HasAPlan) {
  ExpectPlans(ProductsOfAll(16, {DType::kF32}));
  ExpectPlans(ProductsOfAll(16, {DType::kF32, true}));
}

TEST_P(CudnnPlansTest, PlansOf256RowsAreTheGoldenOnes) {
  std::string text = absl::StrCat(products_->Describe(), "\n");
  for (const DType type : {DType::kBF16, DType::kF16}) {
    for (const auto& [description, spec] : ProductsOfAll(256, {type})) {
      const auto choice = products_->Choose(spec);
      EXPECT_TRUE(choice.ok()) << choice.status();
      text += LineOf(description, choice);
    }
  }
  for (const auto& [description, spec] : EpiloguesOfAll(256, {DType::kBF16})) {
    const auto choice = products_->Choose(spec);
    EXPECT_TRUE(choice.ok() || absl::IsUnimplemented(choice.status())) << choice.status();
    text += LineOf(description, choice);
  }
  if (std::getenv("MILLRACE_REGENERATE") != nullptr) std::ofstream(PathOf(kGolden)) << text;
  const std::string expected = ReadFile(kGolden);
  const std::string version = expected.substr(0, expected.find('\n'));
  if (version != products_->Describe()) {
    GTEST_SKIP() << kGolden << " has the plans of " << version << ", here is "
                 << products_->Describe();
  }
  EXPECT_EQ(text, expected);
}

INSTANTIATE_TEST_SUITE_P(Cards, CudnnPlansTest, testing::Values("h100", "h200"),
                         [](const auto& card) { return std::string(card.param); });

}  // namespace
}  // namespace millrace::trainer::cuda
