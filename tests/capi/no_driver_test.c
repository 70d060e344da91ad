// A machine without CUDA's driver: MILLRACE_CUDA_LIBRARY names a file that is not there.
#include <millrace_device.h>

#include "expect.h"
#include "streams.h"

static void a_feed_cannot_be_opened(void) {
  mr_plan* plan = make_plan(NUMBERS);
  mr_feed* feed = NULL;
  EXPECT_ERROR(mr_feed_open(plan, NULL, NULL, NULL, &feed), MR_FAILED_PRECONDITION, "driver");
  EXPECT(feed == NULL);
  mr_plan_free(plan);
}

// The plan names files that are not there either: the device is looked for first.
static void the_device_is_found_before_files_are_opened(void) {
  mr_plan* plan =
      make_plan("stage { text { files: \"/nowhere/*.txt\" } } stage { batch { size: 8 } }");
  mr_feed* feed = NULL;
  EXPECT_ERROR(mr_feed_open(plan, NULL, NULL, NULL, &feed), MR_FAILED_PRECONDITION, "driver");
  mr_plan_free(plan);
}

static void pinned_batches_lie_in_ordinary_memory(void) {
  mr_open_options options = {sizeof options};
  options.pinned = 1;
  mr_loader* loader = open_stream(NUMBERS, NULL, &options);
  mr_batch* batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 0);
  mr_batch_release(batch);
  mr_loader_free(loader);
}

static const test_case cases[] = {
    {"AFeedCannotBeOpened", a_feed_cannot_be_opened},
    {"TheDeviceIsFoundBeforeFilesAreOpened", the_device_is_found_before_files_are_opened},
    {"PinnedBatchesLieInOrdinaryMemory", pinned_batches_lie_in_ordinary_memory},
    {NULL, NULL}};

int main(void) { return run_cases("CNoDriver", cases); }
