// The life of a feed, on the driver that MILLRACE_CUDA_LIBRARY names: one whose devices have the
// memory of the host, so that their bytes can be read here.
#include <dlfcn.h>
#include <millrace_device.h>
#include <millrace_diagnosis.h>
#include <pthread.h>
#include <stdlib.h>

#include "dl_tensor.h"
#include "expect.h"
#include "streams.h"

// Any number but NULL's is a stream that the program has made; these two every device has.
static void* const kLegacy = (void*)1;
static void* const kPerThread = (void*)2;

// The questions that the driver answers besides (tests/pipeline/cuda/fake_driver.h).
static void* answer(const char* question) {
  static void* driver = NULL;
  if (driver == NULL) driver = dlopen(getenv("MILLRACE_CUDA_LIBRARY"), RTLD_NOW);
  EXPECT(driver != NULL);
  return dlsym(driver, question);
}
static int64_t live(const char* kind) {
  int64_t (*ask)(const char*) = NULL;
  *(void**)&ask = answer("fake_cuda_live");
  return ask(kind);
}
static int64_t misuses(void) {
  int64_t (*ask)(void) = NULL;
  *(void**)&ask = answer("fake_cuda_misuses");
  return ask();
}
static int64_t calls(const char* function) {
  int64_t (*ask)(const char*) = NULL;
  *(void**)&ask = answer("fake_cuda_calls");
  return ask(function);
}
// Lets the next call of a function of the driver fail.
static void fail(const char* function) {
  void (*tell)(const char*, int, int) = NULL;
  *(void**)&tell = answer("fake_cuda_fail");
  tell(function, 1, 999);
}

static mr_feed* open_feed_of(const char* text, const mr_open_options* options,
                             const mr_feed_options* feed_options) {
  mr_plan* plan = make_plan(text);
  mr_feed* feed = NULL;
  EXPECT_OK(mr_feed_open(plan, NULL, options, feed_options, &feed));
  mr_plan_free(plan);
  return feed;
}

static mr_feed* open_feed(void) { return open_feed_of(NUMBERS, NULL, NULL); }

static mr_device_batch* next_of(mr_feed* feed) {
  mr_device_batch* batch = NULL;
  int32_t outcome = MR_FAILED;
  EXPECT_OK(mr_feed_next(feed, -1, &batch, &outcome));
  EXPECT_EQ(outcome, batch == NULL ? MR_END : MR_BATCH);
  return batch;
}

// Waits for the bytes, and returns the first number; -1 for no batch.
static int64_t first_of(const mr_device_batch* batch) {
  int64_t number = -1;
  mr_tensor tensor = {sizeof tensor};
  int32_t ready = 0;
  if (batch == NULL) return number;
  EXPECT_OK(mr_device_batch_wait_on(batch, kLegacy));
  while (!ready) EXPECT_OK(mr_device_batch_ready(batch, &ready));
  EXPECT_OK(mr_device_batch_tensor(batch, 0, &tensor));
  memcpy(&number, tensor.data, sizeof number);
  return number;
}

// Reads a batch to its end, and gives it back.
static int64_t use_first_of(mr_device_batch* batch) {
  const int64_t number = first_of(batch);
  EXPECT_OK(mr_device_batch_record_use(batch, kLegacy));
  mr_device_batch_release(batch);
  return number;
}

static void expect_same(const mr_device_batch* got, const mr_batch* wanted) {
  mr_info a = {sizeof a}, b = {sizeof b};
  EXPECT_OK(mr_device_batch_info(got, &a));
  EXPECT_OK(mr_batch_info(wanted, &b));
  EXPECT(memcmp(&a, &b, sizeof a) == 0);
  for (int32_t i = 0; i < b.num_tensors; ++i) {
    mr_tensor x = {sizeof x}, y = {sizeof y};
    EXPECT_OK(mr_device_batch_tensor(got, (size_t)i, &x));
    EXPECT_OK(mr_batch_tensor(wanted, (size_t)i, &y));
    EXPECT(strcmp(x.name, y.name) == 0);
    EXPECT_EQ(x.dtype, y.dtype);
    EXPECT_EQ(x.rank, y.rank);
    EXPECT_EQ(x.bytes, y.bytes);
    EXPECT(memcmp(x.shape, y.shape, sizeof x.shape) == 0);
    EXPECT(memcmp(x.data, y.data, x.bytes) == 0);
    EXPECT_EQ((uintptr_t)x.data % 256, 0);
  }
  EXPECT(memcmp(mr_device_batch_valid(got), mr_batch_valid(wanted), (size_t)b.rows) == 0);
  EXPECT(memcmp(mr_device_batch_ids(got), mr_batch_ids(wanted),
                (size_t)b.rows * sizeof(mr_sample_id)) == 0);
  size_t size = 0, wanted_size = 0;
  const char* token = mr_device_batch_token(got, &size);
  EXPECT(strcmp(token, mr_batch_token(wanted, &wanted_size)) == 0);
  EXPECT_EQ(size, wanted_size);
}

static void batches_are_those_of_the_loader(void) {
  for (int32_t device = 0; device < 2; ++device) {
    mr_feed_options options = {sizeof options};
    options.device = device;
    options.ring = 1;
    mr_feed* feed = open_feed_of(NUMBERS, NULL, &options);
    mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
    for (int i = 0; i < 3; ++i) {
      mr_device_batch* got = next_of(feed);
      mr_batch* wanted = next_batch(loader);
      EXPECT_EQ(first_of(got), 8 * i);
      expect_same(got, wanted);
      EXPECT_OK(mr_device_batch_record_use(got, kLegacy));
      mr_device_batch_release(got);
      mr_batch_release(wanted);
    }
    EXPECT(next_of(feed) == NULL);
    EXPECT(next_of(feed) == NULL);
    mr_feed_free(feed);
    mr_loader_free(loader);
  }
}

static void a_batch_outlives_feed_and_context(void) {
  mr_context* context = NULL;
  EXPECT_OK(mr_context_create(NULL, &context));
  mr_plan* plan = make_plan(NUMBERS);
  mr_feed* feed = NULL;
  EXPECT_OK(mr_feed_open(plan, context, NULL, NULL, &feed));
  mr_plan_free(plan);
  mr_context_free(context);
  mr_device_batch* batch = next_of(feed);
  EXPECT(mr_device_batch_retain(batch) == batch);
  mr_device_batch_release(batch);
  mr_feed_free(feed);
  EXPECT_EQ(use_first_of(batch), 0);
}

static void a_dlpack_tensor_holds_its_batch(void) {
  void* const streams[] = {NULL, kLegacy, kPerThread, MR_NO_STREAM};
  for (int i = 0; i < 4; ++i) {
    mr_feed_options options = {sizeof options};
    options.device = 1;
    mr_feed* feed = open_feed_of(NUMBERS, NULL, &options);
    mr_device_batch* batch = next_of(feed);
    EXPECT_EQ(first_of(batch), 0);
    mr_tensor tensor = {sizeof tensor};
    EXPECT_OK(mr_device_batch_tensor(batch, 0, &tensor));
    struct DLManagedTensorVersioned* made = NULL;
    EXPECT_ERROR(mr_device_batch_dlpack(batch, 1, streams[i], &made), MR_OUT_OF_RANGE,
                 "no tensor 1");
    EXPECT_OK(mr_device_batch_dlpack(batch, 0, streams[i], &made));
    mr_device_batch_release(batch);
    mr_feed_free(feed);
    dl_tensor* shared = (dl_tensor*)made;
    EXPECT_EQ(shared->version.major, 1);
    EXPECT_EQ(shared->flags, 0);
    EXPECT(shared->data == tensor.data);
    EXPECT_EQ(shared->device_type, 2);
    EXPECT_EQ(shared->device_id, 1);
    EXPECT_EQ(shared->ndim, 1);
    EXPECT_EQ(shared->dtype.bits, 64);
    EXPECT_EQ(shared->shape[0], 8);
    EXPECT_EQ(shared->strides[0], 1);
    EXPECT_EQ(((int64_t*)shared->data)[7], 7);
    const int64_t records = calls("cuEventRecord");
    shared->deleter(shared);
    EXPECT_EQ(calls("cuEventRecord") - records, streams[i] != MR_NO_STREAM);
    EXPECT_EQ(live(NULL), 0);
  }
}

static void a_dlpack_tensor_waits_where_its_use_cannot_be_recorded(void) {
  mr_feed* feed = open_feed();
  mr_device_batch* batch = next_of(feed);
  mr_feed_free(feed);
  struct DLManagedTensorVersioned* made = NULL;
  fail("cuStreamWaitEvent");
  EXPECT_ERROR(mr_device_batch_dlpack(batch, 0, kLegacy, &made), MR_INTERNAL, "cuStreamWaitEvent");
  EXPECT_OK(mr_device_batch_dlpack(batch, 0, kLegacy, &made));
  mr_device_batch_release(batch);
  const int64_t waits = calls("cuStreamSynchronize");
  fail("cuEventRecord");
  ((dl_tensor*)made)->deleter((dl_tensor*)made);
  EXPECT_EQ(calls("cuStreamSynchronize") - waits, 1);
  EXPECT_EQ(live(NULL), 0);
}

static void errors_of_the_driver_are_told(void) {
  mr_feed* feed = open_feed();
  mr_device_batch* batch = next_of(feed);
  int32_t ready = 0, outcome = 0;
  fail("cuStreamWaitEvent");
  EXPECT_ERROR(mr_device_batch_wait_on(batch, kLegacy), MR_INTERNAL, "cuStreamWaitEvent");
  fail("cuEventRecord");
  EXPECT_ERROR(mr_device_batch_record_use(batch, kLegacy), MR_INTERNAL, "cuEventRecord");
  fail("cuEventQuery");
  EXPECT_ERROR(mr_device_batch_ready(batch, &ready), MR_INTERNAL, "cuEventQuery");
  EXPECT_EQ(use_first_of(batch), 0);
  EXPECT_OK(mr_feed_seek(feed, 2));
  fail("cuMemcpyHtoDAsync");
  batch = NULL;
  EXPECT_ERROR(mr_feed_next(feed, -1, &batch, &outcome), MR_INTERNAL, "batch 2");
  EXPECT_ERROR(mr_feed_next(feed, -1, &batch, &outcome), MR_INTERNAL, "batch 2");
  EXPECT(batch == NULL);
  EXPECT_EQ(outcome, MR_FAILED);
  mr_feed_free(feed);

  mr_plan* plan = make_plan(NUMBERS);
  fail("cuStreamCreate");
  EXPECT_ERROR(mr_feed_open(plan, NULL, NULL, NULL, &feed), MR_INTERNAL, "cuStreamCreate");
  mr_plan_free(plan);
}

static void a_wait_times_out_and_the_stream_goes_on(void) {
  mr_device_batch* batch = NULL;
  int32_t outcome = MR_FAILED;
  mr_feed* nothing = open_feed_of(NOTHING, NULL, NULL);
  EXPECT_OK(mr_feed_try_next(nothing, &batch, &outcome));
  EXPECT_EQ(outcome, MR_TIMED_OUT);
  EXPECT_OK(mr_feed_next(nothing, 100000, &batch, &outcome));
  EXPECT_EQ(outcome, MR_TIMED_OUT);
  EXPECT(batch == NULL);
  mr_feed_free(nothing);

  mr_feed* feed = open_feed();
  int64_t number = 0;
  do {
    EXPECT_OK(mr_feed_poll(feed));
    EXPECT_OK(number % 16 == 0 ? mr_feed_next(feed, 1000, &batch, &outcome)
                               : mr_feed_try_next(feed, &batch, &outcome));
    if (outcome != MR_BATCH) continue;
    EXPECT_EQ(use_first_of(batch), number);
    number += 8;
  } while (outcome == MR_BATCH || outcome == MR_TIMED_OUT);
  EXPECT_EQ(outcome, MR_END);
  EXPECT_EQ(number, 24);
  mr_feed_free(feed);
}

static void a_stream_goes_on_from_its_tokens(void) {
  mr_feed* feed = open_feed();
  static text begin, saved;
  begin.size = saved.size = 0;
  EXPECT_OK(mr_feed_save(feed, take_text, &begin));
  mr_device_batch* first = next_of(feed);
  EXPECT_OK(mr_feed_save(feed, take_text, &saved));
  size_t size = 0;
  const char* token = mr_device_batch_token(first, &size);
  EXPECT(size == saved.size && memcmp(token, saved.bytes, size) == 0);

  EXPECT_EQ(use_first_of(next_of(feed)), 8);
  EXPECT_OK(mr_feed_restore(feed, token, size));
  EXPECT_EQ(use_first_of(next_of(feed)), 8);
  EXPECT_ERROR(mr_feed_restore(feed, "other", 5), MR_INVALID_ARGUMENT, NULL);
  EXPECT_OK(mr_feed_restore(feed, begin.bytes, begin.size));
  EXPECT_EQ(use_first_of(next_of(feed)), 0);
  EXPECT_ERROR(mr_feed_seek(feed, 9), MR_INVALID_ARGUMENT, NULL);
  EXPECT_OK(mr_feed_seek(feed, 2));
  EXPECT_EQ(use_first_of(next_of(feed)), 16);
  mr_feed_free(feed);

  mr_open_options options = {sizeof options};
  options.token = token;
  options.token_bytes = size;
  feed = open_feed_of(NUMBERS, &options, NULL);
  EXPECT_EQ(use_first_of(next_of(feed)), 8);
  mr_feed_free(feed);
  EXPECT_EQ(use_first_of(first), 0);
}

static void visit_field(void* user, const mr_field* field) {
  ++*(int*)user;
  EXPECT(strcmp(field->name, "value") == 0);
  EXPECT_EQ(field->dtype, MR_INT64);
}

static void visit_place(void* user, const mr_record* record) { *(int64_t*)user = record->ordinal; }

static void a_feed_tells_its_length_schema_and_places(void) {
  mr_feed* feed = open_feed();
  mr_length length = {sizeof length};
  EXPECT_OK(mr_feed_length(feed, &length));
  EXPECT_EQ(length.batches, 3);
  int fields = 0;
  EXPECT_OK(mr_feed_schema(feed, visit_field, &fields));
  EXPECT_EQ(fields, 1);
  const mr_sample_id id = {0, 7, 0}, none = {0, 20, 0};
  int64_t ordinal = -1;
  EXPECT_OK(mr_feed_locate(feed, &id, visit_place, &ordinal));
  EXPECT_EQ(ordinal, 7);
  EXPECT_ERROR(mr_feed_locate(feed, &none, visit_place, &ordinal), MR_OUT_OF_RANGE, "record 20");
  mr_feed_free(feed);
}

static void damaged_samples_come_with_their_batch(void) {
  static const char plan_text[] =
      "on_damage { policy: \"mask\" max_count: 9 } stage { memory {} } "
      "stage { parse_json { feature { key: \"x\" dtype: INT64 } } } stage { batch { size: 2 } }";
  const void* const records[] = {"damage", "{\"x\": 7}"};
  const size_t sizes[] = {6, 8};
  mr_memory* memory = NULL;
  EXPECT_OK(mr_memory_create(records, sizes, 2, &memory));
  const mr_memory* const memories[] = {memory};
  const char* const names[] = {"memory"};
  mr_open_options options = {sizeof options};
  options.memory_names = names;
  options.memory = memories;
  options.num_memory = 1;
  mr_feed* feed = open_feed_of(plan_text, &options, NULL);
  mr_memory_free(memory);
  mr_device_batch* batch = next_of(feed);
  mr_feed_free(feed);
  mr_info info = {sizeof info};
  EXPECT_OK(mr_device_batch_info(batch, &info));
  EXPECT_EQ(info.num_damaged, 1);
  int64_t row = -1;
  mr_sample_id id = {9, 9, 9};
  mr_error* error = NULL;
  EXPECT_OK(mr_device_batch_damaged(batch, 0, &row, &id, &error));
  EXPECT_EQ(row, 0);
  EXPECT_EQ(id.record, 0);
  EXPECT_ERROR(error, MR_DATA_LOSS, NULL);
  EXPECT_ERROR(mr_device_batch_damaged(batch, 1, NULL, NULL, NULL), MR_OUT_OF_RANGE, "has 1");
  mr_device_batch_release(batch);
}

static void* cancel(void* feed) {
  mr_feed_cancel(feed);
  return NULL;
}

static void cancel_ends_a_wait(void) {
  mr_feed* feed = open_feed_of(NOTHING, NULL, NULL);
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, NULL, cancel, feed), 0);
  mr_device_batch* batch = (mr_device_batch*)feed;
  int32_t outcome = MR_BATCH;
  EXPECT_ERROR(mr_feed_next(feed, -1, &batch, &outcome), MR_CANCELLED, "cancelled");
  EXPECT(batch == NULL);
  EXPECT_EQ(outcome, MR_FAILED);
  pthread_join(thread, NULL);
  EXPECT_ERROR(mr_feed_try_next(feed, &batch, &outcome), MR_CANCELLED, "cancelled");
  mr_feed_free(feed);
}

static void held_batches_are_an_error_that_may_be_tried_again(void) {
  mr_feed_options options = {sizeof options};
  options.ring = 1;
  options.max_device_bytes = 300 << 10;  // four batches
  mr_feed* feed = open_feed_of(LARGE, NULL, &options);
  mr_device_batch* held[100];
  int num_held = 0;
  mr_error* error = NULL;
  for (; num_held < 100; ++num_held) {
    int32_t outcome = MR_FAILED;
    error = mr_feed_next(feed, -1, &held[num_held], &outcome);
    if (error != NULL) break;
  }
  EXPECT(num_held > 0 && num_held < 100);
  EXPECT_EQ(mr_error_retryable(error), 1);
  EXPECT_ERROR(error, MR_RESOURCE_EXHAUSTED, "max_device_bytes");
  for (int i = 0; i < num_held; ++i) EXPECT_EQ(use_first_of(held[i]), 8192 * i);
  EXPECT_EQ(use_first_of(next_of(feed)), 8192 * num_held);
  mr_feed_free(feed);
}

static void opening_is_cancelled(void) {
  mr_plan* plan = make_plan(NUMBERS);
  mr_feed* feed = NULL;
  mr_cancel* cancel = NULL;
  EXPECT_OK(mr_cancel_create(&cancel));
  mr_cancel_set(cancel);
  mr_open_options options = {sizeof options};
  options.cancel = cancel;
  EXPECT_ERROR(mr_feed_open(plan, NULL, &options, NULL, &feed), MR_CANCELLED, "cancelled");
  EXPECT(feed == NULL);
  mr_cancel_free(cancel);
  mr_plan_free(plan);
}

static void wrong_options_are_named(void) {
  mr_plan* plan = make_plan(NUMBERS);
  mr_feed* feed = NULL;
  mr_feed_options options = {sizeof options};
  options.device = 2;
  EXPECT_ERROR(mr_feed_open(plan, NULL, NULL, &options, &feed), MR_INVALID_ARGUMENT, "2");
  options.device = -1;
  EXPECT_ERROR(mr_feed_open(plan, NULL, NULL, &options, &feed), MR_INVALID_ARGUMENT, "device");
  options.device = 0;
  options.ring = -1;
  EXPECT_ERROR(mr_feed_open(plan, NULL, NULL, &options, &feed), MR_INVALID_ARGUMENT, "ring");
  options.ring = 0;
  options.max_device_bytes = -1;
  EXPECT_ERROR(mr_feed_open(plan, NULL, NULL, &options, &feed), MR_INVALID_ARGUMENT,
               "max_device_bytes");
  EXPECT(feed == NULL);
  mr_plan_free(plan);
}

static void pinned_batches_are_the_same(void) {
  mr_open_options options = {sizeof options};
  options.pinned = 1;
  options.pinned_device = 1;
  mr_loader* loader = open_stream(NUMBERS, NULL, &options);
  mr_batch* batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 0);
  EXPECT(live("host_memory") > 0);
  EXPECT(live("context_1") > 0);
  EXPECT_EQ(live("context_0"), 0);
  mr_loader_free(loader);
  mr_batch_release(batch);
}

#define EXPECT_NULL(call, name) EXPECT_ERROR(call, MR_INVALID_ARGUMENT, name " is NULL")

static void take_json(void* user, const mr_diagnosis* diagnosis) {
  text* const json = user;
  json->size = 0;
  take_text(json, diagnosis->json, strlen(diagnosis->json));
}

// The feed is ahead of the program.
static void a_feed_is_diagnosed_as_its_loader_is(void) {
  mr_feed* feed = open_feed();
  static text json;
  for (int i = 0; i < 3; ++i) mr_device_batch_release(next_of(feed));
  EXPECT_OK(mr_feed_diagnose(feed, NULL, take_json, &json));
  EXPECT(strstr(json.bytes, "\"samples\":20.0,") != NULL);
  EXPECT(strstr(json.bytes, "\"copies\":{\"bytes_per_second\":") != NULL);
  EXPECT_OK(mr_feed_seek(feed, 2));
  mr_device_batch_release(next_of(feed));
  EXPECT_OK(mr_feed_diagnose(feed, NULL, take_json, &json));
  EXPECT(strstr(json.bytes, "\"samples\":4.0,") != NULL);
  EXPECT_OK(mr_feed_measure_anew(feed));
  EXPECT_OK(mr_feed_diagnose(feed, NULL, take_json, &json));
  EXPECT(strstr(json.bytes, "\"samples\":0.0,") != NULL);
  mr_feed_free(feed);
}

static void null_is_named(void) {
  mr_plan* plan = make_plan(NUMBERS);
  mr_feed* feed = open_feed();
  mr_device_batch* batch = next_of(feed);
  mr_device_batch* none = NULL;
  mr_info info = {sizeof info};
  mr_tensor tensor = {sizeof tensor};
  mr_length length = {sizeof length};
  const mr_sample_id id = {0, 0, 0};
  int32_t outcome = 0;
  int64_t ordinal = 0;
  struct DLManagedTensorVersioned* shared = NULL;

  EXPECT_NULL(mr_feed_open(NULL, NULL, NULL, NULL, &feed), "mr_feed_open: plan");
  EXPECT_NULL(mr_feed_open(plan, NULL, NULL, NULL, NULL), "feed");
  EXPECT_NULL(mr_feed_next(NULL, 0, &none, &outcome), "mr_feed_next: feed");
  EXPECT_NULL(mr_feed_next(feed, 0, NULL, &outcome), "batch");
  EXPECT_NULL(mr_feed_next(feed, 0, &none, NULL), "outcome");
  EXPECT_NULL(mr_feed_try_next(NULL, &none, &outcome), "mr_feed_try_next: feed");
  EXPECT_NULL(mr_feed_poll(NULL), "mr_feed_poll: feed");
  EXPECT_NULL(mr_feed_save(NULL, take_text, NULL), "mr_feed_save: feed");
  EXPECT_NULL(mr_feed_save(feed, NULL, NULL), "sink");
  EXPECT_NULL(mr_feed_restore(NULL, "", 0), "mr_feed_restore: feed");
  EXPECT_NULL(mr_feed_restore(feed, NULL, 0), "token");
  EXPECT_NULL(mr_feed_seek(NULL, 0), "mr_feed_seek: feed");
  EXPECT_NULL(mr_feed_length(NULL, &length), "mr_feed_length: feed");
  EXPECT_NULL(mr_feed_length(feed, NULL), "length");
  EXPECT_NULL(mr_feed_schema(NULL, visit_field, NULL), "mr_feed_schema: feed");
  EXPECT_NULL(mr_feed_schema(feed, NULL, NULL), "visit");
  EXPECT_NULL(mr_feed_locate(NULL, &id, visit_place, &ordinal), "mr_feed_locate: feed");
  EXPECT_NULL(mr_feed_locate(feed, NULL, visit_place, &ordinal), "id");
  EXPECT_NULL(mr_feed_locate(feed, &id, NULL, NULL), "visit");
  EXPECT_NULL(mr_device_batch_info(NULL, &info), "mr_device_batch_info: batch");
  EXPECT_NULL(mr_device_batch_info(batch, NULL), "info");
  EXPECT_NULL(mr_device_batch_tensor(NULL, 0, &tensor), "mr_device_batch_tensor: batch");
  EXPECT_NULL(mr_device_batch_tensor(batch, 0, NULL), "tensor");
  EXPECT_NULL(mr_device_batch_damaged(NULL, 0, NULL, NULL, NULL), "mr_device_batch_damaged: batch");
  EXPECT_NULL(mr_device_batch_wait_on(NULL, kLegacy), "mr_device_batch_wait_on: batch");
  EXPECT_NULL(mr_device_batch_record_use(NULL, kLegacy), "mr_device_batch_record_use: batch");
  EXPECT_NULL(mr_device_batch_ready(NULL, &outcome), "mr_device_batch_ready: batch");
  EXPECT_NULL(mr_device_batch_ready(batch, NULL), "ready");
  EXPECT_NULL(mr_device_batch_dlpack(NULL, 0, NULL, &shared), "mr_device_batch_dlpack: batch");
  EXPECT_NULL(mr_device_batch_dlpack(batch, 0, NULL, NULL), "tensor");
  size_t size = 7;
  EXPECT(mr_device_batch_valid(NULL) == NULL);
  EXPECT(mr_device_batch_ids(NULL) == NULL);
  EXPECT(mr_device_batch_token(NULL, &size) == NULL);
  EXPECT_EQ(size, 0);
  EXPECT(mr_device_batch_retain(NULL) == NULL);
  mr_device_batch_release(NULL);
  mr_feed_cancel(NULL);
  mr_feed_free(NULL);
  mr_device_batch_release(batch);
  mr_feed_free(feed);
  mr_plan_free(plan);
}

static void nothing_was_left_in_the_driver(void) {
  EXPECT_EQ(live(NULL), 0);
  EXPECT_EQ(misuses(), 0);
}

static const test_case cases[] = {
    {"BatchesAreThoseOfTheLoader", batches_are_those_of_the_loader},
    {"ABatchOutlivesFeedAndContext", a_batch_outlives_feed_and_context},
    {"ADlpackTensorHoldsItsBatch", a_dlpack_tensor_holds_its_batch},
    {"ADlpackTensorWaitsWhereItsUseCannotBeRecorded",
     a_dlpack_tensor_waits_where_its_use_cannot_be_recorded},
    {"ErrorsOfTheDriverAreTold", errors_of_the_driver_are_told},
    {"AWaitTimesOutAndTheStreamGoesOn", a_wait_times_out_and_the_stream_goes_on},
    {"AStreamGoesOnFromItsTokens", a_stream_goes_on_from_its_tokens},
    {"AFeedTellsItsLengthSchemaAndPlaces", a_feed_tells_its_length_schema_and_places},
    {"DamagedSamplesComeWithTheirBatch", damaged_samples_come_with_their_batch},
    {"CancelEndsAWait", cancel_ends_a_wait},
    {"HeldBatchesAreAnErrorThatMayBeTriedAgain", held_batches_are_an_error_that_may_be_tried_again},
    {"WrongOptionsAreNamed", wrong_options_are_named},
    {"OpeningIsCancelled", opening_is_cancelled},
    {"PinnedBatchesAreTheSame", pinned_batches_are_the_same},
    {"AFeedIsDiagnosedAsItsLoaderIs", a_feed_is_diagnosed_as_its_loader_is},
    {"NullIsNamed", null_is_named},
    {"NothingWasLeftInTheDriver", nothing_was_left_in_the_driver},
    {NULL, NULL}};

int main(void) { return run_cases("CDevice", cases); }
