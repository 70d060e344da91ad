// No exception leaves a call, wherever in it there is no memory. The operator new is that of the
// whole process, libmillrace.so too.
#include <gmock/gmock.h>
#include <millrace.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "capi/arrow.h"
#include "capi/dlpack.h"
#include "tests/failing_new.h"
#include "tests/temp_folder.h"

namespace millrace {
namespace {

constexpr const char* kNumbers = "stage { range { count: 20 } } stage { batch { size: 8 } }";
constexpr int kMostAllocations = 100'000;

// Calls `call` with 0, 1, 2, ... allocations until it succeeds. All errors before must say that
// there is no memory. Returns how many there were.
int FailWithoutMemory(const std::function<mr_error*()>& call) {
  for (int allocations = 0; allocations < kMostAllocations; ++allocations) {
    mr_error* error = nullptr;
    {
      const AllocationsLeft left(allocations);
      error = call();
    }
    if (error == nullptr) return allocations;
    EXPECT_EQ(mr_error_code(error), MR_RESOURCE_EXHAUSTED) << mr_error_message(error);
    EXPECT_THAT(mr_error_message(error), testing::HasSubstr("no more memory"));
    EXPECT_EQ(mr_error_retryable(error), 0);
    mr_error_free(error);
  }
  ADD_FAILURE() << "the call never succeeds";
  return 0;
}

mr_plan* MakePlan() {
  mr_plan* plan = nullptr;
  EXPECT_EQ(mr_plan_from_text(kNumbers, std::strlen(kNumbers), "plan", nullptr, nullptr, 0, &plan),
            nullptr);
  return plan;
}

TEST(NoMemoryTest, AnErrorOfNoMemoryNeedsNone) {
  if (!kNewFails) GTEST_SKIP() << "this build's operator new cannot fail";
  const AllocationsLeft none(0);
  mr_error* const error = mr_loader_seek(nullptr, 0);
  EXPECT_EQ(mr_error_code(error), MR_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(mr_error_message(error), "the system gives no more memory");
  mr_error_free(error);
  mr_error_free(error);  // it is nobody's
}

TEST(NoMemoryTest, ACallThatHasNoMemoryMayBeMadeAgain) {
  if (!kNewFails) GTEST_SKIP() << "this build's operator new cannot fail";
  mr_context* context = nullptr;
  EXPECT_GT(FailWithoutMemory([&] { return mr_context_create(nullptr, &context); }), 0);
  mr_plan* plan = MakePlan();
  mr_loader* loader = nullptr;
  ASSERT_EQ(mr_loader_open(plan, context, nullptr, &loader), nullptr);
  const auto sink = [](void*, const char*, size_t) {};
  EXPECT_GT(FailWithoutMemory([&] { return mr_loader_save(loader, sink, nullptr); }), 0);
  mr_batch* batch = nullptr;
  int32_t outcome = MR_FAILED;
  ASSERT_EQ(mr_loader_next(loader, -1, &batch, &outcome), nullptr);
  ASSERT_EQ(outcome, MR_BATCH);
  DLManagedTensorVersioned* tensor = nullptr;
  EXPECT_GT(FailWithoutMemory([&] { return mr_batch_dlpack(batch, 0, &tensor); }), 0);
  ArrowArray array = {};
  ArrowSchema schema = {};
  EXPECT_GT(FailWithoutMemory([&] { return mr_batch_arrow(batch, &array, &schema); }), 0);
  mr_batch_release(batch);
  mr_loader_free(loader);
  mr_plan_free(plan);
  mr_context_free(context);
  array.release(&array);
  schema.release(&schema);
  tensor->deleter(tensor);
}

TEST(NoMemoryTest, ARecordIsWrittenOnceOrNot) {
  if (!kNewFails) GTEST_SKIP() << "this build's operator new cannot fail";
  const TempFolder folder;
  const std::string prefix = folder / "a";
  mr_writer_options options = {};
  options.struct_size = sizeof options;
  options.prefix = prefix.c_str();
  mr_writer* writer = nullptr;
  ASSERT_EQ(mr_writer_open(&options, &writer), nullptr);
  const int64_t label = 7;
  const mr_feature feature = {"label", MR_INT64, 0, 1, &label, nullptr};
  EXPECT_GT(FailWithoutMemory([&] { return mr_writer_write_example(writer, &feature, 1); }), 0);
  EXPECT_EQ(FailWithoutMemory([&] { return mr_writer_write(writer, "two", 3); }), 0);
  ASSERT_EQ(mr_writer_close(writer, nullptr, nullptr), nullptr);
  mr_writer_free(writer);
  constexpr size_t kFrame = 16;
  // Example { features { feature { key: "label" value { int64_list { value: 7 } } } } }
  constexpr size_t kExample = 2 + 2 + 2 + 5 + 2 + 2 + 3;
  EXPECT_EQ(std::filesystem::file_size(prefix + "-00000-of-00001.tfrecord"),
            kFrame + kExample + kFrame + 3);
}

TEST(NoMemoryTest, NoBatchIsLost) {
  if (!kNewFails) GTEST_SKIP() << "this build's operator new cannot fail";
  mr_plan* plan = MakePlan();
  mr_loader* loader = nullptr;
  ASSERT_EQ(mr_loader_open(plan, nullptr, nullptr, &loader), nullptr);
  mr_batch* batch = nullptr;
  int32_t outcome = MR_BATCH;
  {
    const AllocationsLeft none(0);
    mr_error* const error = mr_loader_next(loader, -1, &batch, &outcome);
    EXPECT_EQ(mr_error_code(error), MR_RESOURCE_EXHAUSTED);
    mr_error_free(error);
  }
  EXPECT_EQ(batch, nullptr);
  EXPECT_EQ(outcome, MR_FAILED);
  ASSERT_EQ(mr_loader_next(loader, -1, &batch, &outcome), nullptr);
  ASSERT_EQ(outcome, MR_BATCH);
  mr_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(mr_batch_info(batch, &info), nullptr);
  EXPECT_EQ(info.index, 0u);
  mr_batch_release(batch);
  mr_loader_free(loader);
  mr_plan_free(plan);
}

}  // namespace
}  // namespace millrace
