#include "cli/bench/collectives.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/factory.h"
#include "gtest/gtest.h"
#include "tests/sanitized.h"

namespace millrace::cli {
namespace {

using collectives::Collective;
using collectives::Communicator;
using collectives::Pending;
using collectives::ReduceOp;
using collectives::Request;

CollectiveBenchOptions Small() {
  CollectiveBenchOptions options;
  options.min_bytes = 8;
  options.max_bytes = 1 << 13;
  options.factor = 4;
  options.warmup = 1;
  options.repeats = 3;
  return options;
}

bool IsWhole(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64;
}

// The rows of rank 0 of `ranks` threads.
absl::StatusOr<std::vector<CollectiveBenchRow>> Rows(int ranks,
                                                     const CollectiveBenchOptions& options) {
  std::vector<CollectiveBenchRow> rows;
  MILLRACE_RETURN_IF_ERROR(collectives::RunRanks(ranks, [&](Communicator& communicator) {
    return BenchCollective(communicator, options, [&](const CollectiveBenchRow& row) {
      if (communicator.rank() == 0) rows.push_back(row);
    });
  }));
  return rows;
}

// float32 results get a last element that no operation gives; the bench's own figures are of other
// types.
void Spoil(const TensorView& out) {
  if (out.data == nullptr || out.dtype != DType::kF32) return;
  std::memset(static_cast<std::byte*>(out.data) + out.size_bytes() - sizeof(float), 0x55,
              sizeof(float));
}

class SpoiledPending final : public Pending {
 public:
  SpoiledPending(std::unique_ptr<Pending> pending, TensorView out)
      : pending_(std::move(pending)), out_(std::move(out)) {}
  bool Poll() override { return pending_->Poll(); }
  absl::Status Wait() override {
    MILLRACE_RETURN_IF_ERROR(pending_->Wait());
    Spoil(out_);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Pending> pending_;
  const TensorView out_;
};

// A rank each of whose results is wrong.
class SpoilingCommunicator final : public Communicator {
 public:
  explicit SpoilingCommunicator(Communicator& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  int local_rank() const override { return group_.local_rank(); }
  int local_size() const override { return group_.local_size(); }
  std::string_view backend() const override { return group_.backend(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    return group_.Split(color, key);
  }
  void Abort(const absl::Status& reason) override { group_.Abort(reason); }
  void Leave(const absl::Status& reason) override { group_.Leave(reason); }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status&) override {
    MILLRACE_RETURN_IF_ERROR(group_.Run(request));
    Spoil(request.out);
    return absl::OkStatus();
  }
  std::unique_ptr<Pending> StartChecked(const Request& request, const absl::Status&) override {
    return std::make_unique<SpoiledPending>(group_.Start(request), request.out);
  }

  Communicator& group_;
};

// The rows of rank 0 of three threads, of which rank 1 has wrong results.
absl::StatusOr<std::vector<CollectiveBenchRow>> SpoiledRows(const CollectiveBenchOptions& options) {
  std::vector<CollectiveBenchRow> rows;
  MILLRACE_RETURN_IF_ERROR(collectives::RunRanks(3, [&](Communicator& group) {
    SpoilingCommunicator spoiling(group);
    Communicator& used = group.rank() == 1 ? static_cast<Communicator&>(spoiling) : group;
    return BenchCollective(used, options, [&](const CollectiveBenchRow& row) {
      if (group.rank() == 0) rows.push_back(row);
    });
  }));
  return rows;
}

constexpr Collective kKinds[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                 Collective::kAllGather, Collective::kBroadcast,
                                 Collective::kReduce,    Collective::kAllToAll,
                                 Collective::kSend};

TEST(CollectiveBenchTest, EveryOperationTypeAndReductionIsRight) {
  for (const Collective kind : kKinds) {
    for (const DType dtype : {DType::kU8, DType::kI32, DType::kI64, DType::kF16, DType::kBF16,
                              DType::kF32, DType::kF64}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
                                ReduceOp::kAverage}) {
        if (op == ReduceOp::kAverage && IsWhole(dtype)) continue;  // there is none
        CollectiveBenchOptions options = Small();
        options.kind = kind;
        options.dtype = dtype;
        options.op = op;
        options.root = 2;
        const auto rows = Rows(3, options);
        ASSERT_TRUE(rows.ok()) << rows.status();
        ASSERT_FALSE(rows->empty());
        for (const CollectiveBenchRow& row : *rows) {
          EXPECT_EQ(row.num_wrong, 0) << row.bytes;
          EXPECT_GT(row.seconds, 0);
        }
      }
    }
  }
}

TEST(CollectiveBenchTest, AWrongElementOfOneRankIsCounted) {
  for (const Collective kind : kKinds) {
    CollectiveBenchOptions options = Small();
    options.kind = kind;
    options.root = 1;
    const auto rows = SpoiledRows(options);
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_FALSE(rows->empty());
    for (const CollectiveBenchRow& row : *rows) {
      EXPECT_EQ(row.num_wrong, 1) << static_cast<int>(kind) << ", " << row.bytes << " bytes";
    }
  }
}

TEST(CollectiveBenchTest, WhatAReductionLeavesBesideItsRootIsNotCompared) {
  CollectiveBenchOptions options = Small();
  options.kind = Collective::kReduce;
  options.root = 0;
  const auto rows = SpoiledRows(options);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_FALSE(rows->empty());
  for (const CollectiveBenchRow& row : *rows) EXPECT_EQ(row.num_wrong, 0) << row.bytes;
}

TEST(CollectiveBenchTest, SizesGrowByTheFactorInWholeBlocks) {
  CollectiveBenchOptions options = Small();
  options.kind = Collective::kAllGather;
  const auto rows = Rows(3, options);
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<uint64_t> bytes;
  for (const CollectiveBenchRow& row : *rows) bytes.push_back(row.bytes);
  // 8 bytes hold no block of a float for each of three ranks.
  EXPECT_EQ(bytes, (std::vector<uint64_t>{24, 120, 504, 2040, 8184}));
}

TEST(CollectiveBenchTest, BandwidthsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllToAll, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kBroadcast, 4), 1);
  const auto rows = Rows(2, Small());
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (const CollectiveBenchRow& row : *rows) {
    EXPECT_DOUBLE_EQ(row.algorithm_bytes_per_second, static_cast<double>(row.bytes) / row.seconds);
    EXPECT_DOUBLE_EQ(row.bus_bytes_per_second, row.algorithm_bytes_per_second);
  }
}

TEST(CollectiveBenchTest, OptionsThatMakeNoSenseAreRefused) {
  CollectiveBenchOptions options = Small();
  options.root = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(Rows(2, options).status()));
  options = Small();
  options.min_bytes = options.max_bytes + 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Rows(2, options).status()));
  options = Small();
  options.min_bytes = options.max_bytes = 7;  // two ranks have not a float each
  EXPECT_TRUE(absl::IsInvalidArgument(Rows(2, options).status()));
  options = Small();
  options.op = ReduceOp::kAverage;
  options.dtype = DType::kI32;
  EXPECT_TRUE(absl::IsInvalidArgument(Rows(2, options).status()));
  options = Small();
  options.kind = Collective::kSend;
  EXPECT_TRUE(absl::IsInvalidArgument(Rows(1, options).status()));
}

TEST(CollectiveBenchTest, NobodyWaitsForARankWithoutMemory) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's malloc ends the program";
  std::vector<absl::Status> outcomes(2);
  const absl::Status run = collectives::RunRanks(2, [&](Communicator& communicator) {
    CollectiveBenchOptions options = Small();
    if (communicator.rank() == 1) options.max_bytes = uint64_t{1} << 60;
    outcomes[communicator.rank()] =
        BenchCollective(communicator, options, [](const CollectiveBenchRow&) {});
    return absl::OkStatus();
  });
  EXPECT_TRUE(run.ok()) << run;
  EXPECT_EQ(outcomes[0], absl::ResourceExhaustedError("1 other ranks lack memory for 8192 bytes"));
  EXPECT_EQ(outcomes[1], absl::ResourceExhaustedError("no memory for 1152921504606846976 bytes"));
}

}  // namespace
}  // namespace millrace::cli
