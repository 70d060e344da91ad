#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "pipeline/pipeline.h"

// Batches in memory of the program.

namespace millrace::pipeline {
namespace {

using testing::HasSubstr;

// The blocks that a program has lent. Its functions share it, so it outlives all blocks.
class Lent {
 public:
  BatchMemory Memory(const std::shared_ptr<Lent>& self) {
    return {
        .alloc = [self](size_t bytes, size_t alignment) { return self->Alloc(bytes, alignment); },
        .free = [self](void* memory, size_t bytes) { self->Free(memory, bytes); }};
  }
  size_t num_blocks() const {
    MutexLock lock(mu_);
    return blocks_.size();
  }
  bool Holds(const void* address) const {
    MutexLock lock(mu_);
    auto block = blocks_.upper_bound(const_cast<void*>(address));
    if (block == blocks_.begin()) return false;
    --block;
    return static_cast<const char*>(address) <
           static_cast<const char*>(block->first) + block->second;
  }

  int left = 1 << 20;      // blocks that it has
  size_t shift_bytes = 0;  // from where they should begin

 private:
  void* Alloc(size_t bytes, size_t alignment) {
    MutexLock lock(mu_);
    EXPECT_EQ(alignment, 64u);
    if (left-- <= 0) return nullptr;
    void* const memory = std::aligned_alloc(alignment, (bytes + 2 * alignment) / 64 * 64);
    void* const shown = static_cast<char*>(memory) + shift_bytes;
    blocks_[shown] = bytes;
    return shown;
  }
  void Free(void* memory, size_t bytes) {
    MutexLock lock(mu_);
    const auto block = blocks_.find(memory);
    ASSERT_NE(block, blocks_.end()) << "given back twice, or never lent";
    EXPECT_EQ(block->second, bytes);
    blocks_.erase(block);
    std::free(static_cast<char*>(memory) - shift_bytes);
  }

  mutable Mutex mu_;
  std::map<void*, size_t> blocks_ MILLRACE_GUARDED_BY(mu_);
};

class ProgramMemoryTest : public testing::Test {
 protected:
  std::unique_ptr<Pipeline> Open() {
    ContextOptions options;
    options.threads = 2;
    options.batch_memory = lent_->Memory(lent_);
    const Plan plan = *Plan::FromText(
        "stage { range { count: 100 } } stage { repeat {} } stage { batch { size: 8 } }", "p");
    return *Pipeline::Open(plan, *MakeContext(std::move(options)));
  }

  const std::shared_ptr<Lent> lent_ = std::make_shared<Lent>();
};

TEST_F(ProgramMemoryTest, BatchesLieInItAndMayOutliveTheContext) {
  std::unique_ptr<Pipeline> pipeline = Open();
  std::optional<Batch> held;
  for (int i = 0; i < 50; ++i) {
    held = *pipeline->Next();
    ASSERT_TRUE(held.has_value());
    EXPECT_TRUE(lent_->Holds(held->Find("value").as<int64_t>().data()));
  }
  pipeline.reset();
  EXPECT_EQ(lent_->num_blocks(), 1u);
  EXPECT_EQ(held->Find("value").as<int64_t>()[0], 49 * 8 % 100);
  held.reset();
  EXPECT_EQ(lent_->num_blocks(), 0u);
}

TEST_F(ProgramMemoryTest, WhereThereIsNoneTheStreamEnds) {
  lent_->left = 1;
  const std::unique_ptr<Pipeline> pipeline = Open();
  const auto first = pipeline->Next();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = pipeline->Next();
  EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
  EXPECT_THAT(second.status().message(), HasSubstr("the program has no memory"));
}

TEST_F(ProgramMemoryTest, WhatIsNotAlignedIsGivenBack) {
  lent_->shift_bytes = 8;
  std::unique_ptr<Pipeline> pipeline = Open();
  const auto next = pipeline->Next();
  EXPECT_TRUE(absl::IsFailedPrecondition(next.status())) << next.status();
  EXPECT_THAT(next.status().message(), HasSubstr("is not aligned to 64"));
  pipeline.reset();
  EXPECT_EQ(lent_->num_blocks(), 0u);
}

TEST_F(ProgramMemoryTest, BothFunctionsAreSetOrNeither) {
  ContextOptions options;
  options.batch_memory.alloc = lent_->Memory(lent_).alloc;
  EXPECT_THAT(MakeContext(std::move(options)).status().message(), HasSubstr("batch_memory"));
}

}  // namespace
}  // namespace millrace::pipeline
