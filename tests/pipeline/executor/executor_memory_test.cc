// Without memory a stream ends with RESOURCE_EXHAUSTED, wherever it is that there is none: nothing
// gets out of a worker, nobody waits for what will never come, and the budget is whole again.
#include <atomic>
#include <new>

#include "pipeline/batch/host_allocator.h"
#include "tests/pipeline/executor/executor_fixture.h"

namespace millrace::pipeline {
namespace {

// Throws from one of its calls on.
class OutOfMemory {
 public:
  explicit OutOfMemory(int at) : left_(at) {}
  void Call() {
    if (left_.fetch_sub(1) <= 0) throw std::bad_alloc();
  }

 private:
  std::atomic<int> left_;
};

class ThrowingIo final : public IoEngine {
 public:
  explicit ThrowingIo(int at) : memory_(at) {}
  void Submit(std::vector<ReadRequest> requests,
              std::function<void(std::vector<absl::Status>)> done) override {
    memory_.Call();
    inner_.Submit(std::move(requests), std::move(done));
  }

 private:
  OutOfMemory memory_;
  FakeIo inner_;
};

class ThrowingAllocator final : public HostAllocator {
 public:
  explicit ThrowingAllocator(int at) : memory_(at) {}
  absl::StatusOr<std::byte*> Allocate(size_t bytes) override {
    memory_.Call();
    return inner_->Allocate(bytes);
  }
  void Free(std::byte* memory, size_t bytes) override { inner_->Free(memory, bytes); }
  std::string_view name() const override { return "throwing"; }

 private:
  OutOfMemory memory_;
  const std::shared_ptr<HostAllocator> inner_ = MakePageableAllocator();
};

// Throws while a worker plans which records rows are.
class ThrowingSource final : public readers::RecordSource {
 public:
  ThrowingSource(const FakeData& data, int at) : inner_(data), memory_(at) {}
  uint64_t num_records() const override { return inner_.num_records(); }
  const std::vector<std::string>& files() const override { return inner_.files(); }
  readers::RecordRef Locate(uint64_t record) const override {
    memory_.Call();
    return inner_.Locate(record);
  }
  std::shared_ptr<const RandomAccessFile> file(uint32_t shard) const override {
    return inner_.file(shard);
  }
  uint64_t FramedBytes(const readers::RecordRef& ref) const override {
    return inner_.FramedBytes(ref);
  }
  absl::StatusOr<std::string_view> Unframe(const readers::RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    return inner_.Unframe(ref, framed);
  }
  uint64_t Fingerprint() const override { return inner_.Fingerprint(); }

 private:
  const FakeSource inner_;
  mutable OutOfMemory memory_;
};

constexpr int kMoments = 12;  // calls at which there is no memory, from the first on

std::shared_ptr<Context> ContextWith(std::shared_ptr<IoEngine> io) {
  ContextOptions options;
  options.threads = 3;
  options.io = std::move(io);
  return *Context::Make(std::move(options));
}

void ExpectExhausted(std::unique_ptr<Pipeline> pipeline, const std::shared_ptr<Context>& context) {
  ASSERT_NE(pipeline, nullptr);
  const Stream stream = Drain(*pipeline);
  EXPECT_EQ(stream.end.code(), absl::StatusCode::kResourceExhausted) << stream.end;
  EXPECT_EQ(pipeline->Next().status(), stream.end);
  pipeline.reset();  // waits for what is under way
  EXPECT_EQ(context->memory_budget()->work_bytes(), 0);
}

// S-ERROR-7.
TEST(ExecutorMemoryTest, OpsWithoutMemoryAreNoBugs) {
  PhysicalPlan plan = MakePlan(5);
  plan.ops.push_back(
      MakeRowOp("hungry", "", DType::kU8, [](millrace::Run& run, Column*, int64_t row) {
        if (run.id(row).record == 12) throw std::bad_alloc();
      }));
  const auto context = FakeContext(2);
  ExpectExhausted(OpenFake(std::move(plan), MakeFakeData(40), context), context);
}

TEST(ExecutorMemoryTest, ReadsThatCannotBeBegun) {
  for (int at = 0; at < kMoments; ++at) {
    const auto context = ContextWith(std::make_shared<ThrowingIo>(at));
    ExpectExhausted(OpenFake(MakePlan(4), MakeFakeData(200), context), context);
  }
}

TEST(ExecutorMemoryTest, BatchesThatCannotBeOpened) {
  for (int at = 0; at < 2; ++at) {  // later ones need no new slabs
    const auto context = FakeContext(3);
    PhysicalPlan plan = MakePlan(4);
    std::vector<std::unique_ptr<readers::RecordSource>> sources;
    sources.push_back(std::make_unique<FakeSource>(MakeFakeData(200)));
    OpenedSources opened = JoinSources(plan, std::move(sources));
    auto parts = MakeExecutorParts(std::move(plan), std::move(opened), context, {});
    ASSERT_TRUE(parts.ok()) << parts.status();
    parts->allocator = std::make_shared<ThrowingAllocator>(at);
    auto pipeline = OpenParts(*std::move(parts), {});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    ExpectExhausted(*std::move(pipeline), context);
  }
}

TEST(ExecutorMemoryTest, RowsThatCannotBePlanned) {
  for (int at = 0; at < kMoments; ++at) {
    const auto context = FakeContext(3);
    PhysicalPlan plan = MakePlan(4);
    std::vector<std::unique_ptr<readers::RecordSource>> sources;
    sources.push_back(std::make_unique<ThrowingSource>(MakeFakeData(200), at));
    OpenedSources opened = JoinSources(plan, std::move(sources));
    auto pipeline = OpenPhysical(std::move(plan), std::move(opened), context, {});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    ExpectExhausted(*std::move(pipeline), context);
  }
}

}  // namespace
}  // namespace millrace::pipeline
