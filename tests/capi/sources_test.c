// Records of the program: in its memory, and pushed while the loader reads.
#include <pthread.h>

#include "expect.h"
#include "streams.h"

// Records of one byte each, in batches of two.
#define BYTES                                                          \
  "stage { decode_raw { output: \"byte\" dtype: UINT8 shape: [1] } } " \
  "stage { batch { size: 2 } }"

static uint8_t first_byte(const mr_batch* batch) {
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
  EXPECT(strcmp(tensor.name, "byte") == 0);
  return *(const uint8_t*)tensor.data;
}

static void expect_batches(mr_loader* loader, const char* firsts) {
  for (; *firsts != '\0'; ++firsts) {
    mr_batch* batch = next_batch(loader);
    EXPECT(batch != NULL);
    if (batch != NULL) EXPECT_EQ(first_byte(batch), *firsts);
    mr_batch_release(batch);
  }
}

static void records_in_memory_are_read_by_the_names_of_their_stages(void) {
  const void* records[] = {"a", "b", "c", "d"};
  const size_t sizes[] = {1, 1, 1, 1};
  mr_memory* memory = NULL;
  mr_memory* reversed = NULL;
  EXPECT_OK(mr_memory_create(records, sizes, 4, &memory));
  const void* others[] = {"x", "y"};
  EXPECT_OK(mr_memory_create(others, sizes, 2, &reversed));
  const char* names[] = {"memory", "more"};
  const mr_memory* handles[] = {memory, reversed};
  mr_open_options options = {sizeof options};
  options.memory_names = names;
  options.memory = handles;
  options.num_memory = 2;
  mr_loader* loader = open_stream(
      "stage { concatenate { input { stage { memory {} } } "
      "input { stage { memory {} name: \"more\" } } } } " BYTES,
      NULL, &options);
  mr_memory_free(memory);  // the loader keeps the records
  mr_memory_free(reversed);
  expect_batches(loader, "acx");
  EXPECT(next_batch(loader) == NULL);
  EXPECT_OK(mr_loader_seek(loader, 1));
  expect_batches(loader, "cx");
  mr_loader_free(loader);
}

static void wrong_memory_is_invalid(void) {
  mr_plan* plan = make_plan("stage { memory {} } " BYTES);
  mr_loader* loader = NULL;
  mr_memory* memory = NULL;
  const void* records[] = {NULL};
  const size_t sizes[] = {1};
  EXPECT_ERROR(mr_memory_create(NULL, sizes, 1, &memory), MR_INVALID_ARGUMENT, "records is NULL");
  EXPECT_ERROR(mr_memory_create(records, NULL, 1, &memory), MR_INVALID_ARGUMENT, "sizes is NULL");
  EXPECT_ERROR(mr_memory_create(records, sizes, 1, &memory), MR_INVALID_ARGUMENT,
               "record 0 is NULL");
  EXPECT_ERROR(mr_memory_create(NULL, NULL, 0, NULL), MR_INVALID_ARGUMENT, "memory is NULL");
  EXPECT_OK(mr_memory_create(NULL, NULL, 0, &memory));
  mr_open_options options = {sizeof options};
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT, "memory");
  options.num_memory = 2;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT,
               "memory_names is NULL");
  const char* names[] = {"memory", "memory"};
  const mr_memory* handles[] = {memory, memory};
  options.memory_names = names;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT,
               "memory is NULL");
  options.memory = handles;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT,
               "memory is given twice");
  handles[1] = NULL;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT,
               "a handle of memory is NULL");
  names[0] = NULL;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT,
               "a name of memory_names is NULL");
  EXPECT(loader == NULL);
  mr_memory_free(memory);
  mr_plan_free(plan);
}

static mr_loader* open_push(mr_push* push) {
  mr_open_options options = {sizeof options};
  options.push = push;
  return open_stream("stage { push {} } " BYTES, NULL, &options);
}

static mr_push* make_push(uint64_t max_bytes) {
  mr_push_options options = {sizeof options};
  options.name = "bytes";
  options.max_bytes = max_bytes;
  mr_push* push = NULL;
  EXPECT_OK(mr_push_create(&options, &push));
  return push;
}

static void a_wait_for_a_pushed_record_times_out(void) {
  mr_push* push = make_push(0);
  mr_loader* loader = open_push(push);
  mr_batch* batch = NULL;
  int32_t outcome = MR_FAILED;
  EXPECT_OK(mr_loader_try_next(loader, &batch, &outcome));
  EXPECT_EQ(outcome, MR_TIMED_OUT);
  EXPECT_OK(mr_push_push(push, "a", 1));
  EXPECT_OK(mr_loader_next(loader, 1000, &batch, &outcome));
  EXPECT_EQ(outcome, MR_TIMED_OUT);  // half a batch
  EXPECT_OK(mr_push_push(push, "b", 1));
  EXPECT_OK(mr_loader_next(loader, INT64_MAX, &batch, &outcome));
  EXPECT_EQ(outcome, MR_BATCH);
  EXPECT_EQ(first_byte(batch), 'a');
  mr_batch_release(batch);
  EXPECT_ERROR(mr_loader_seek(loader, 0), MR_FAILED_PRECONDITION, "push");
  EXPECT_OK(mr_push_finish(push));
  EXPECT(next_batch(loader) == NULL);
  EXPECT_ERROR(mr_push_push(push, "c", 1), MR_FAILED_PRECONDITION, NULL);
  mr_loader_free(loader);
  mr_push_free(push);
}

static void* push_to_the_end(void* push) {
  for (char c = 'a'; c < 'g'; ++c) EXPECT_OK(mr_push_push(push, &c, 1));
  EXPECT_OK(mr_push_fail(push, MR_UNAVAILABLE, "the camera is gone"));
  EXPECT_OK(mr_push_finish(push));  // the second has no effect
  return NULL;
}

static void a_producers_error_follows_its_records(void) {
  mr_push* push = make_push(1);
  mr_loader* loader = open_push(push);
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, NULL, push_to_the_end, push), 0);
  expect_batches(loader, "ace");
  mr_batch* batch = NULL;
  int32_t outcome = MR_BATCH;
  EXPECT_ERROR(mr_loader_next(loader, -1, &batch, &outcome), MR_UNAVAILABLE, "the camera is gone");
  EXPECT_EQ(outcome, MR_FAILED);
  pthread_join(thread, NULL);
  mr_loader_free(loader);
  mr_push_free(push);
}

static void* push_b(void* user) {
  int32_t taken = 0;
  EXPECT_OK(mr_push_push_for(user, "b", 1, -1, &taken));
  EXPECT_EQ(taken, 1);
  return NULL;
}

static void a_push_without_a_limit_waits_for_room(void) {
  mr_push* push = make_push(1);
  EXPECT_OK(mr_push_push(push, "a", 1));
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, NULL, push_b, push), 0);
  mr_loader* loader = open_push(push);
  expect_batches(loader, "a");
  pthread_join(thread, NULL);
  mr_loader_free(loader);
  mr_push_free(push);
}

static void a_full_source_takes_nothing(void) {
  mr_push* push = make_push(1);
  int32_t taken = 0;
  EXPECT_OK(mr_push_try_push(push, "a", 1, &taken));
  EXPECT_EQ(taken, 1);
  EXPECT_OK(mr_push_try_push(push, "b", 1, &taken));
  EXPECT_EQ(taken, 0);
  EXPECT_OK(mr_push_push_for(push, "b", 1, 1000, &taken));
  EXPECT_EQ(taken, 0);
  EXPECT_OK(mr_push_push_for(push, "b", 1, 0, &taken));
  EXPECT_EQ(taken, 0);
  mr_loader* loader = open_push(push);
  EXPECT_OK(mr_push_push_for(push, "b", 1, INT64_MAX, &taken));
  EXPECT_EQ(taken, 1);
  expect_batches(loader, "a");
  mr_loader_cancel(loader);
  EXPECT_ERROR(mr_push_push(push, "c", 1), MR_CANCELLED, NULL);
  EXPECT_ERROR(mr_push_try_push(push, "c", 1, &taken), MR_CANCELLED, NULL);
  mr_loader_free(loader);
  mr_push_free(push);
}

static void a_producer_that_goes_away_is_an_error(void) {
  mr_push* push = make_push(0);
  mr_loader* loader = open_push(push);
  mr_push_free(push);
  mr_batch* batch = NULL;
  int32_t outcome = MR_BATCH;
  EXPECT_ERROR(mr_loader_next(loader, -1, &batch, &outcome), MR_ABORTED, "bytes");
  mr_loader_free(loader);
}

static void wrong_arguments_are_named(void) {
  mr_push* push = make_push(0);
  int32_t taken = 0;
  EXPECT_ERROR(mr_push_create(NULL, NULL), MR_INVALID_ARGUMENT, "push is NULL");
  EXPECT_ERROR(mr_push_push(NULL, "a", 1), MR_INVALID_ARGUMENT, "mr_push_push: push is NULL");
  EXPECT_ERROR(mr_push_push(push, NULL, 1), MR_INVALID_ARGUMENT, "record is NULL");
  EXPECT_ERROR(mr_push_try_push(push, "a", 1, NULL), MR_INVALID_ARGUMENT, "taken is NULL");
  EXPECT_ERROR(mr_push_push_for(push, "a", 1, -1, NULL), MR_INVALID_ARGUMENT, "taken is NULL");
  EXPECT_ERROR(mr_push_push_for(push, NULL, 1, 0, &taken), MR_INVALID_ARGUMENT, "record is NULL");
  EXPECT_ERROR(mr_push_finish(NULL), MR_INVALID_ARGUMENT, "push is NULL");
  EXPECT_ERROR(mr_push_fail(NULL, MR_INTERNAL, ""), MR_INVALID_ARGUMENT, "push is NULL");
  EXPECT_ERROR(mr_push_fail(push, MR_INTERNAL, NULL), MR_INVALID_ARGUMENT, "message is NULL");
  EXPECT_ERROR(mr_push_fail(push, MR_OK, ""), MR_INVALID_ARGUMENT, "code is 0");
  EXPECT_ERROR(mr_push_fail(push, 17, ""), MR_INVALID_ARGUMENT, "code is 17");
  mr_push_free(push);
}

static const test_case cases[] = {
    {"RecordsInMemoryAreReadByTheNamesOfTheirStages",
     records_in_memory_are_read_by_the_names_of_their_stages},
    {"WrongMemoryIsInvalid", wrong_memory_is_invalid},
    {"AWaitForAPushedRecordTimesOut", a_wait_for_a_pushed_record_times_out},
    {"AProducersErrorFollowsItsRecords", a_producers_error_follows_its_records},
    {"APushWithoutALimitWaitsForRoom", a_push_without_a_limit_waits_for_room},
    {"AFullSourceTakesNothing", a_full_source_takes_nothing},
    {"AProducerThatGoesAwayIsAnError", a_producer_that_goes_away_is_an_error},
    {"WrongArgumentsAreNamed", wrong_arguments_are_named},
    {NULL, NULL}};

int main(void) { return run_cases("CSources", cases); }
