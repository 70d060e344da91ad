// The choice among plans of a stand-in, which tells what times a test wants.

#include "trainer/backend/cuda/tuning/tuned_plans.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"
#include "base/status.h"
#include "tests/messages.h"
#include "tests/trainer/backend/cuda/host_device.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "trainer/backend/cuda/shared_products.h"
#include "trainer/backend/cuda/tuning/plan_timer.h"

namespace millrace::trainer::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ProductSpec SmallConvolution(ProductPass pass = ProductPass::kForward) {
  ProductSpec spec;
  spec.pass = pass;
  spec.rows = 2;
  spec.height = spec.width = spec.out_height = spec.out_width = 4;
  spec.channels = 3;
  spec.filters = 5;
  spec.window.kernel = {3, 3};
  spec.window.padding = {1, 1, 1, 1};
  return spec;
}

class TunedPlansTest : public ::testing::Test {
 protected:
  TunedPlansTest() {
    device_.plans = {"eng0", "eng1", "eng2"};
    device_.milliseconds = [this](const std::string& plan) {
      ++num_timed_[plan];
      return ms_[plan];
    };
    device_.build = [this](const std::string& plan) {
      return cannot_be_built_ == plan ? absl::UnimplementedError("no shared memory")
                                      : absl::OkStatus();
    };
  }

  std::unique_ptr<TunedPlans> MakeTuned() {
    return std::make_unique<TunedPlans>(
        device_, 1, [this](std::string_view line) { warnings_.emplace_back(line); });
  }
  std::string PlanOf(TunedPlans& tuned, const ProductSpec& spec = SmallConvolution()) {
    const auto product = tuned.MakeProduct(spec);
    EXPECT_TRUE(product.ok()) << product.status();
    return product.ok() ? (*product)->Describe() : "";
  }

  HostDevice device_{HostKernels()};
  std::map<std::string, double> ms_ = {{"eng0", 3}, {"eng1", 1}, {"eng2", 2}};
  std::map<std::string, int> num_timed_;
  std::string cannot_be_built_;
  std::vector<std::string> warnings_;
};

TEST_F(TunedPlansTest, TheQuickestPlanIsTakenAndNoted) {
  const auto tuned = MakeTuned();
  EXPECT_EQ(PlanOf(*tuned), "eng1");
  EXPECT_EQ(tuned->book().Find(Describe(SmallConvolution())), "eng1");
  EXPECT_EQ(tuned->num_tuned(), 1);
  EXPECT_EQ(tuned->Describe(),
            "tuned plans, 1 of them timed now: 1 ms in all, the first ones 3 ms");
  num_timed_.clear();
  EXPECT_EQ(PlanOf(*tuned), "eng1");
  EXPECT_THAT(num_timed_, IsEmpty()) << "it is noted";
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(device_.device_bytes(), 0u);
}

TEST_F(TunedPlansTest, OfEquallyQuickPlansTheFirstIsTaken) {
  ms_ = {{"eng0", 3}, {"eng1", 2}, {"eng2", 2}};
  EXPECT_EQ(PlanOf(*MakeTuned()), "eng1");
}

TEST_F(TunedPlansTest, APlanThatCannotBeBuiltIsLeftOut) {
  cannot_be_built_ = "eng1";
  EXPECT_EQ(PlanOf(*MakeTuned()), "eng2");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TunedPlansTest, APlanThatCannotRunIsLeftOut) {
  device_.fault = [this](std::string_view call, const void*, const void*, size_t) {
    const bool fails = call == "Product" && device_.last_plan() == "eng1";
    return fails ? absl::InternalError("it cannot run") : absl::OkStatus();
  };
  EXPECT_EQ(PlanOf(*MakeTuned()), "eng2");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TunedPlansTest, ADeviceThatBreaksWhileAPlanIsTimedEndsWithItsName) {
  device_.fault = [this](std::string_view call, const void*, const void*, size_t) {
    const bool fails =
        device_.last_plan() == "eng1" && (call == "Product" || call == "Synchronize");
    return fails ? absl::InternalError("an illegal address") : absl::OkStatus();
  };
  EXPECT_MESSAGE(MakeTuned()->MakeProduct(SmallConvolution()), absl::StatusCode::kInternal);
}

TEST_F(TunedPlansTest, WithoutMemoryToTimeInTheFirstPlanIsTakenAndNotNoted) {
  device_.fault = [](std::string_view call, const void*, const void*, size_t) {
    return call == "Allocate" ? absl::ResourceExhaustedError("cudaMalloc: out of memory")
                              : absl::OkStatus();
  };
  const auto tuned = MakeTuned();
  EXPECT_EQ(PlanOf(*tuned), "eng0");
  EXPECT_EQ(tuned->book().size(), 0u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_MESSAGE(warnings_[0]);
}

TEST_F(TunedPlansTest, AProductThatTheDeviceLacksIsUnimplemented) {
  device_.lacks = [](const ProductSpec&) { return true; };
  EXPECT_TRUE(absl::IsUnimplemented(MakeTuned()->MakeProduct(SmallConvolution()).status()));
}

TEST_F(TunedPlansTest, ANotedPlanIsTakenByItsName) {
  PlanBook book(device_.PlansKey());
  book.Set(Describe(SmallConvolution()), "eng2");
  const auto tuned = MakeTuned();
  tuned->Note(book);
  EXPECT_EQ(PlanOf(*tuned), "eng2");
  EXPECT_THAT(num_timed_, IsEmpty());
  device_.plans = {"eng2", "eng0"};
  EXPECT_EQ(PlanOf(*tuned), "eng2");
}

TEST_F(TunedPlansTest, ANotedPlanThatIsNotThereIsTunedAnew) {
  PlanBook book(device_.PlansKey());
  book.Set(Describe(SmallConvolution()), "eng9");
  const auto tuned = MakeTuned();
  tuned->Note(book);
  EXPECT_EQ(PlanOf(*tuned), "eng1");
  EXPECT_EQ(tuned->book().Find(Describe(SmallConvolution())), "eng1");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_MESSAGE(warnings_[0]);
}

// As on a rank that takes the plans of another.
TEST_F(TunedPlansTest, OncePlansAreFixedNothingIsTimed) {
  PlanBook book(device_.PlansKey());
  book.Set(Describe(SmallConvolution()), "eng2");
  book.Set(Describe(SmallConvolution(ProductPass::kDataGradient)), "eng9");
  const auto tuned = MakeTuned();
  tuned->Fix(book);
  EXPECT_EQ(PlanOf(*tuned), "eng2");
  EXPECT_EQ(PlanOf(*tuned, SmallConvolution(ProductPass::kDataGradient)), "eng0");
  EXPECT_EQ(PlanOf(*tuned, SmallConvolution(ProductPass::kWeightGradient)), "eng0");
  EXPECT_THAT(num_timed_, IsEmpty());
}

TEST_F(TunedPlansTest, EqualProductsAreMadeOnce) {
  SharedProducts products(device_, nullptr, 1);
  const auto first = products.Make(SmallConvolution());
  const auto again = products.Make(SmallConvolution());
  const auto other = products.Make(SmallConvolution(ProductPass::kDataGradient));
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
  EXPECT_THAT(device_.made, ElementsAre("eng0", "eng0"));
  int asked = 0;
  device_.lacks = [&asked](const ProductSpec&) { return ++asked > 0; };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(absl::IsUnimplemented(
        products.Make(SmallConvolution(ProductPass::kWeightGradient)).status()));
  }
  EXPECT_EQ(asked, 1);
}

TEST_F(TunedPlansTest, ForeseenProductsAreMadeAtOnceAndThenShared) {
  SharedProducts products(device_, nullptr, 1);
  const ProductSpec lacking = SmallConvolution(ProductPass::kDataGradient);
  device_.lacks = [](const ProductSpec& spec) { return spec.pass == ProductPass::kDataGradient; };
  const absl::Status foreseen = products.Foresee([&]() -> absl::Status {
    for (int i = 0; i < 2; ++i) {
      const auto product = products.Make(SmallConvolution());
      EXPECT_TRUE(product.ok() && products.Make(lacking).ok()) << "stand-ins";
      EXPECT_FALSE((*product)->Run(device_.stream(), {}, nullptr).ok());
    }
    EXPECT_THAT(device_.made, IsEmpty());
    return absl::OkStatus();
  });
  EXPECT_TRUE(foreseen.ok()) << foreseen;
  EXPECT_THAT(device_.made, ElementsAre("eng0"));
  const auto product = products.Make(SmallConvolution());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ((*product)->Describe(), "eng0");
  EXPECT_TRUE(absl::IsUnimplemented(products.Make(lacking).status()));
  EXPECT_THAT(device_.made, ElementsAre("eng0"));
  EXPECT_TRUE(absl::IsInternal(products.Foresee([] { return absl::InternalError("no model"); })));
}

// Noted plans are made; others wait for their measurement.
TEST_F(TunedPlansTest, WhatIsForeseenHasItsNotedPlan) {
  const ProductSpec other = SmallConvolution(ProductPass::kWeightGradient);
  const ProductSpec gone = SmallConvolution(ProductPass::kDataGradient);
  PlanBook book(device_.PlansKey());
  book.Set(Describe(SmallConvolution()), "eng2");
  book.Set(Describe(gone), "eng9");
  const auto tuned = MakeTuned();
  tuned->Note(book);
  SharedProducts products(device_, tuned.get(), 1);
  const auto ask = [&]() -> absl::Status {
    for (const ProductSpec& spec : {SmallConvolution(), other, gone}) {
      MILLRACE_RETURN_IF_ERROR(products.Make(spec).status());
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(products.Foresee(ask).ok());
  EXPECT_THAT(device_.made, ElementsAre("eng2"));
  EXPECT_THAT(num_timed_, IsEmpty());
  EXPECT_TRUE(ask().ok());
  EXPECT_EQ((*products.Make(SmallConvolution()))->Describe(), "eng2");
  EXPECT_EQ((*products.Make(other))->Describe(), "eng1");
  EXPECT_EQ((*products.Make(gone))->Describe(), "eng1");
  EXPECT_EQ(tuned->num_tuned(), 2);
}

// A product that looks at its tensors.
class LookingProduct final : public Product {
 public:
  LookingProduct(const ProductSpec& spec, size_t workspace_bytes)
      : spec_(spec), workspace_bytes_(workspace_bytes) {}
  size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string Describe() const override { return "looks"; }
  absl::Status Run(void*, const ProductTensors& tensors, void* workspace) const override {
    ++runs;
    EXPECT_EQ(workspace != nullptr, workspace_bytes_ > 0);
    EXPECT_EQ(tensors.bias != nullptr, spec_.has_bias);
    EXPECT_EQ(tensors.addend != nullptr, spec_.has_addend);
    const auto* const x = static_cast<const BFloat*>(tensors.x);
    const auto* const w = static_cast<const BFloat*>(tensors.w);
    const int64_t num_x = spec_.rows * spec_.height * spec_.width * spec_.channels;
    EXPECT_GE(w, x + num_x);
    EXPECT_GE(tensors.y, w + spec_.filters * 9 * spec_.channels);
    int zeros = 0;
    int in_range = 0;
    for (int64_t i = 0; i < num_x; ++i) {
      const float value = ToFloat(x[i]);
      zeros += value == 0 ? 1 : 0;
      in_range += value >= -1 && value <= 1 ? 1 : 0;
    }
    EXPECT_LE(zeros, num_x / 100);
    EXPECT_EQ(in_range, num_x);
    return absl::OkStatus();
  }

  mutable int runs = 0;

 private:
  const ProductSpec spec_;
  const size_t workspace_bytes_;
};

TEST_F(TunedPlansTest, ThePlansRunOnTensorsOfTheirSizesWithNumbers) {
  device_.milliseconds = [](const std::string&) { return 0.5; };
  ProductSpec spec = SmallConvolution();
  spec.rows = 800;  // more than the pattern is long
  spec.height = spec.width = spec.out_height = spec.out_width = 16;
  spec.type = spec.result = DType::kBF16;
  spec.has_bias = true;
  for (const size_t workspace : {0, 4096, 64}) {
    auto timer = PlanTimer::Make(device_, spec);
    ASSERT_TRUE(timer.ok()) << timer.status();
    const LookingProduct product(spec, workspace);
    const auto ms = timer->Measure(product);
    ASSERT_TRUE(ms.ok()) << ms.status();
    EXPECT_EQ(*ms, 0.25) << "a sample is of two runs";
    EXPECT_EQ(product.runs, 2 + 1 + 5 * 2);
  }
  spec.has_bias = false;
  spec.pass = ProductPass::kDataGradient;
  spec.has_addend = true;
  auto timer = PlanTimer::Make(device_, spec);
  ASSERT_TRUE(timer.ok());
  EXPECT_TRUE(timer->Measure(LookingProduct(spec, 0)).ok());
}

// The median, so that one interruption does not matter.
TEST_F(TunedPlansTest, ASlowSampleDoesNotCount) {
  int calls = 0;
  device_.milliseconds = [&](const std::string&) { return ++calls == 4 ? 100 : 2; };
  auto timer = PlanTimer::Make(device_, SmallConvolution());
  const auto product = device_.MakeProduct(SmallConvolution());
  ASSERT_TRUE(timer.ok() && product.ok());
  EXPECT_EQ(*timer->Measure(**product), 2);
}

}  // namespace
}  // namespace millrace::trainer::cuda
