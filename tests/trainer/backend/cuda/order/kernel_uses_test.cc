// The memory that kernels use (kernel_uses.h) is what they do use: each kernel runs twice, on the
// host, the second time with other bytes wherever it is not to read. What it does not write has
// not changed then, and what it writes is the same both times: so it depends on nothing else, and
// all of it was written.

#include "tests/trainer/backend/cuda/order/kernel_uses.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/host_device.h"
#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/host_stream.h"
#include "trainer/backend/cuda/folding.h"

namespace millrace::trainer::cuda::order {
namespace {

constexpr int64_t kRows = 3;
constexpr int64_t kPixels = 20;  // of a row: 5 high, 4 wide
constexpr int64_t kChannels = 6;
constexpr int64_t kValues = kRows * kPixels * kChannels;

// Memory, from which pieces are taken.
class Pieces {
 public:
  Pieces() : memory_(kBytes) {
    std::minstd_rand random(1);
    auto* const floats = reinterpret_cast<float*>(memory_.data());
    for (size_t i = 0; i < kBytes / sizeof(float); ++i) {
      floats[i] = 0.5f + static_cast<float>(random()) * 0x1p-31f;
    }
  }

  template <typename T>
  T* Take(int64_t count) {
    next_ = (next_ + 255) / 256 * 256 + 256;
    T* const piece = reinterpret_cast<T*>(memory_.data() + next_);
    next_ += static_cast<size_t>(count) * sizeof(T);
    EXPECT_LE(next_, kBytes);
    return piece;
  }
  void* TakeValues(DType type, int64_t count = kValues) {
    return Take<std::byte>(count * static_cast<int64_t>(SizeOf(type)));
  }
  template <typename T>
  T* TakeEqual(int64_t count, T value) {
    T* const piece = Take<T>(count);
    std::fill_n(piece, count, value);
    return piece;
  }
  // Apart from the others: it may hold anything.
  void* TakeScratch() {
    scratch_.resize(HostKernels().scratch_bytes(kRows * kPixels, kChannels));
    return scratch_.data();
  }
  BatchRows TakeRows() {
    StepValues* const step = Take<StepValues>(1);
    *step = {};
    uint8_t* const valid = TakeEqual<uint8_t>(kRows, 1);
    valid[1] = 0;
    SampleId* const ids = TakeEqual<SampleId>(kRows, SampleId());
    return {kRows, valid, ids, step};
  }

  // Runs twice, as above.
  void Expect(const Uses& uses, const std::function<absl::Status(void* stream)>& run) {
    const std::vector<std::byte> before = memory_;
    HostStream stream;
    ASSERT_TRUE(run(&stream).ok());
    const std::vector<std::byte> first = memory_;
    for (size_t i = 0; i < kBytes; ++i) {
      const bool may_change = IsIn(uses.writes, i);
      ASSERT_TRUE(may_change || first[i] == before[i]) << "it writes more, at byte " << i;
      memory_[i] = IsIn(uses.reads, i) ? before[i] : before[i] ^ std::byte{0x55};
    }
    ASSERT_TRUE(run(&stream).ok());
    for (size_t i = 0; i < kBytes; ++i) {
      if (!IsIn(uses.writes, i)) continue;
      ASSERT_EQ(memory_[i], first[i]) << "it reads more or writes less, at " << PlaceOf(uses, i);
    }
    memory_ = before;
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 16;

  bool IsIn(const std::vector<Use>& uses, size_t i) const {
    return std::ranges::any_of(uses, [&](const Use& use) {
      const auto* const begin = static_cast<const std::byte*>(use.memory);
      return begin != nullptr && memory_.data() + i >= begin &&
             memory_.data() + i < begin + use.bytes;
    });
  }
  // "write 1 + 40".
  std::string PlaceOf(const Uses& uses, size_t i) const {
    for (size_t w = 0; w < uses.writes.size(); ++w) {
      const auto* const begin = static_cast<const std::byte*>(uses.writes[w].memory);
      if (IsIn({uses.writes[w]}, i)) {
        return absl::StrCat("write ", w, " + ", memory_.data() + i - begin);
      }
    }
    return "";
  }

  std::vector<std::byte> memory_;
  size_t next_ = 0;
  std::vector<std::byte> scratch_;
};

class KernelUsesTest : public testing::TestWithParam<DType> {
 protected:
  template <typename Args>
  void Expect(Kernel<Args> Kernels::*kernel, const Args& args, const Uses& uses) {
    pieces_.Expect(uses, [&](void* stream) { return (HostKernels().*kernel)(stream, args); });
  }
  void* Values(int64_t count = kValues) { return pieces_.TakeValues(GetParam(), count); }
  float* Floats(int64_t count) { return pieces_.Take<float>(count); }

  Pieces pieces_;
};

INSTANTIATE_TEST_SUITE_P(Types, KernelUsesTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(KernelUsesTest, Convert) {
  ConvertArgs args;
  args.from = pieces_.Take<uint8_t>(kPixels * 3);
  args.from_type = DType::kU8;
  args.from_channels = 3;
  args.to = Values(kPixels * 4);
  args.to_type = GetParam();
  args.to_channels = 4;
  args.pixels = kPixels;
  args.scale = Floats(3);
  args.shift = Floats(3);
  args.factor = Floats(1);
  Expect(&Kernels::convert, args, UsesOf(args));
}

TEST_P(KernelUsesTest, Fold) {
  FoldArgs args;
  args.rows = kRows;
  args.height = 4;
  args.width = 6;
  args.channels = 3;
  args.from = pieces_.Take<uint8_t>(kRows * 4 * 6 * 3);
  args.from_type = DType::kU8;
  args.to = pieces_.Take<Half>(kRows * 2 * 3 * kFoldedChannels);
  args.to_type = DType::kF16;
  args.scale = Floats(3);
  args.shift = Floats(3);
  Expect(&Kernels::fold, args, UsesOf(args));
}

TEST_P(KernelUsesTest, FoldWeights) {
  FoldWeightsArgs args;
  args.filters = 2;
  args.channels = 3;
  args.window.kernel = {5, 2};
  args.window.padding = {2, 2, 1, 1};
  args.from = Values(2 * 5 * 2 * 3);
  args.to = Floats(2 * 3 * 2 * kFoldedChannels);
  args.from_type = GetParam();
  Expect(&Kernels::fold_weights, args, UsesOfFoldWeights(args));
  args.from = Values(2 * 3 * 2 * kFoldedChannels);
  args.to = Floats(2 * 5 * 2 * 3);
  args.factor = Floats(1);
  Expect(&Kernels::unfold_weights, args, UsesOfUnfoldWeights(args));
}

TEST_P(KernelUsesTest, Activate) {
  ActivationArgs args;
  args.type = GetParam();
  args.from = Values();
  args.bias = Floats(kChannels);
  args.to = Values();
  args.pixels = kRows * kPixels;
  args.channels = kChannels;
  Expect(&Kernels::activate, args, UsesOf(args));
}

TEST_P(KernelUsesTest, ActivateBackward) {
  for (const bool accumulates : {false, true}) {
    ActivationBackwardArgs args;
    args.kind = accumulates ? LayerKind::kSilu : LayerKind::kTanh;
    args.type = GetParam();
    args.input = accumulates ? Values() : nullptr;
    args.output = accumulates ? nullptr : Values();
    args.gradient = Values();
    args.to = Values();
    args.count = kValues;
    args.accumulates = accumulates;
    Expect(&Kernels::activate_backward, args, UsesOf(args));
  }
}

TEST_P(KernelUsesTest, Binary) {
  for (const bool accumulates : {false, true}) {
    BinaryArgs args;
    args.multiplies = accumulates;
    args.type = GetParam();
    args.a = Values();
    args.b = accumulates ? Values() : nullptr;
    args.to = Values();
    args.count = kValues;
    args.accumulates = accumulates;
    Expect(&Kernels::binary, args, UsesOf(args));
  }
}

// One row, for rows that are used in part count as whole ones.
TEST_P(KernelUsesTest, Slice) {
  SliceArgs args;
  args.type = GetParam();
  args.from = Values();
  args.from_width = 40;
  args.from_begin = 7;
  args.to = Values();
  args.to_width = 30;
  args.to_begin = 5;
  args.width = 20;
  args.rows = 1;
  Expect(&Kernels::slice, args, UsesOf(args));
}

TEST_P(KernelUsesTest, ColumnSums) {
  ColumnSumsArgs args;
  args.type = GetParam();
  args.from = Values();
  args.pixels = kRows * kPixels;
  args.channels = kChannels;
  args.sums = Floats(kChannels);
  args.factor = Floats(1);
  args.scratch = pieces_.TakeScratch();
  Expect(&Kernels::column_sums, args, UsesOf(args));
}

PoolArgs PoolOf(DType type) {
  PoolArgs args;
  args.type = type;
  args.rows = kRows;
  args.height = 5;
  args.width = 4;
  args.out_height = 3;
  args.out_width = 2;
  args.channels = kChannels;
  args.window.kernel = {3, 3};
  args.window.stride = {2, 2};
  args.window.padding = {1, 1, 1, 1};
  return args;
}
constexpr int64_t kPooledValues = kRows * 3 * 2 * kChannels;

TEST_P(KernelUsesTest, PoolsAndBack) {
  for (const bool is_average : {false, true}) {
    PoolArgs args = PoolOf(GetParam());
    args.is_average = is_average;
    const int64_t out = kPooledValues;
    args.from = Values();
    args.to = Values(out);
    if (!is_average) args.places = pieces_.Take<uint8_t>(out);
    Expect(&Kernels::pool, args, UsesOfPool(args));
    args.from = Values(out);
    args.to = Values();
    // Places that are inside the image for every window.
    if (!is_average) args.places = pieces_.TakeEqual<uint8_t>(out, 4);
    Expect(&Kernels::pool_backward, args, UsesOfPoolBackward(args));
  }
}

NormArgs NormOf(Pieces& pieces, DType type) {
  NormArgs args;
  args.type = type;
  args.batch = pieces.TakeRows();
  args.row_pixels = kPixels;
  args.channels = kChannels;
  args.epsilon = 1e-5;
  args.weights = pieces.Take<float>(kChannels);
  args.bias = pieces.Take<float>(kChannels);
  args.sums = pieces.TakeEqual<double>(1 + 2 * kChannels, 40);
  args.moments = pieces.Take<float>(4 * kChannels);
  args.scratch = pieces.TakeScratch();
  args.x = pieces.TakeValues(type);
  return args;
}

TEST_P(KernelUsesTest, NormForward) {
  NormArgs args = NormOf(pieces_, GetParam());
  args.addend = Values();
  args.has_relu = true;
  args.y = Values();
  args.mean = Floats(kChannels);
  args.variance = Floats(kChannels);
  Expect(&Kernels::norm_measure, args, UsesOfNormMeasure(args));
  Expect(&Kernels::norm_moments, args, UsesOfNormMoments(args));
  Expect(&Kernels::norm_moments_of_running, args, UsesOfNormMomentsOfRunning(args));
  Expect(&Kernels::norm_apply, args, UsesOfNormApply(args));
}

TEST_P(KernelUsesTest, NormBackward) {
  for (const bool has_addend : {false, true}) {
    NormArgs args = NormOf(pieces_, GetParam());
    args.has_relu = true;
    args.y = has_addend ? Values() : nullptr;
    args.dy = Values();
    args.dz = has_addend ? Values() : nullptr;
    args.accumulates_dz = has_addend;
    args.dx = Values();
    args.weights_gradient = Floats(kChannels);
    args.bias_gradient = Floats(kChannels);
    args.factor = Floats(1);
    Expect(&Kernels::norm_backward_sums, args, UsesOfNormBackwardSums(args));
    Expect(&Kernels::norm_backward_combine, args, UsesOfNormBackwardCombine(args));
  }
}

TEST_P(KernelUsesTest, NormsWithTheirPools) {
  NormPoolArgs args{NormOf(pieces_, GetParam()), PoolOf(GetParam())};
  args.has_relu = true;
  args.pool.to = Values(kPooledValues);
  args.pool.places = pieces_.Take<uint8_t>(kPooledValues);
  Expect(&Kernels::norm_pool, args, UsesOfNormPool(args));
  args.pool.to = nullptr;
  args.pool.from = Values(kPooledValues);
  args.pool.places = pieces_.TakeEqual<uint8_t>(kPooledValues, 4);
  args.dx = Values();
  args.weights_gradient = Floats(kChannels);
  args.bias_gradient = Floats(kChannels);
  args.factor = Floats(1);
  Expect(&Kernels::norm_pool_backward_sums, args, UsesOfNormPoolBackwardSums(args));
  Expect(&Kernels::norm_pool_backward_combine, args, UsesOfNormPoolBackwardCombine(args));
}

TEST_P(KernelUsesTest, Dropout) {
  DropoutArgs args;
  args.type = GetParam();
  args.batch = pieces_.TakeRows();
  args.row_values = kPixels * kChannels;
  args.rate = 0.5;
  args.from = Values();
  args.to = Values();
  Expect(&Kernels::dropout, args, UsesOf(args));
}

TEST_P(KernelUsesTest, Loss) {
  LossArgs args;
  args.batch = pieces_.TakeRows();
  args.values = kChannels;
  args.type = GetParam();
  args.output = Values(kRows * kChannels);
  args.target = pieces_.TakeEqual<int64_t>(kRows, 2);
  args.gradient = Values(kRows * kChannels);
  args.sums = pieces_.TakeEqual<LossSums>(1, LossSums());
  args.scratch = pieces_.TakeScratch();
  Expect(&Kernels::loss, args, UsesOf(args));
}

TEST_P(KernelUsesTest, Products) {
  ProductSpec spec;
  spec.rows = kRows;
  spec.height = 5;
  spec.width = 4;
  spec.channels = kChannels;
  spec.out_height = 3;
  spec.out_width = 2;
  spec.filters = 8;
  spec.window.kernel = {3, 3};
  spec.window.stride = {2, 2};
  spec.window.padding = {1, 1, 1, 1};
  spec.window.groups = 2;
  spec.type = spec.result = GetParam();
  for (const ProductPass pass :
       {ProductPass::kForward, ProductPass::kDataGradient, ProductPass::kWeightGradient}) {
    spec.pass = pass;
    spec.has_bias = pass == ProductPass::kForward;
    spec.has_addend = pass == ProductPass::kDataGradient;
    const auto product = MakeHostProduct(spec);
    ASSERT_TRUE(product.ok()) << product.status();
    ProductTensors tensors;
    tensors.x = Values();
    tensors.w = Values(8 * 9 * kChannels / 2);
    tensors.y = Values(kRows * 3 * 2 * 8);
    tensors.bias = Floats(8);
    tensors.addend = Values();
    std::vector<std::byte> workspace((*product)->workspace_bytes());
    pieces_.Expect(UsesOf(spec, tensors), [&](void* stream) {
      return (*product)->Run(stream, tensors, workspace.data());
    });
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda::order
