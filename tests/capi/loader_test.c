// The life of a loader: opened, read, moved, cancelled, and given back in any order.
#include <pthread.h>
#include <stdlib.h>

#include "dl_tensor.h"
#include "expect.h"
#include "streams.h"

static void reads_every_batch_to_the_end(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  for (int i = 0; i < 3; ++i) {
    mr_batch* batch = next_batch(loader);
    EXPECT_EQ(first_number(batch), 8 * i);
    mr_info info = {sizeof info};
    EXPECT_OK(mr_batch_info(batch, &info));
    EXPECT_EQ(info.index, i);
    EXPECT_EQ(info.epoch, 0);
    EXPECT_EQ(info.rows, 8);
    EXPECT_EQ(info.valid_rows, i == 2 ? 4 : 8);
    EXPECT_EQ(info.global_valid_rows, info.valid_rows);
    EXPECT_EQ(info.first_global_row, 0);
    EXPECT_EQ(info.ends_epoch != 0, i == 2);
    EXPECT_EQ(info.num_tensors, 1);
    const uint8_t* valid = mr_batch_valid(batch);
    const mr_sample_id* ids = mr_batch_ids(batch);
    for (int row = 0; row < 8; ++row) {
      EXPECT_EQ(valid[row], row < info.valid_rows);
      EXPECT_EQ(ids[row].record, valid[row] ? 8 * i + row : 0);
      EXPECT_EQ(ids[row].epoch, 0);
      EXPECT_EQ(ids[row].sub_index, 0);
    }
    mr_batch_release(batch);
  }
  EXPECT(next_batch(loader) == NULL);
  EXPECT(next_batch(loader) == NULL);
  mr_loader_free(loader);
}

static void a_tensor_says_what_it_is(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_batch* batch = next_batch(loader);
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
  EXPECT(strcmp(tensor.name, "value") == 0);
  EXPECT_EQ(tensor.dtype, MR_INT64);
  EXPECT_EQ(tensor.rank, 1);
  EXPECT_EQ(tensor.shape[0], 8);
  EXPECT_EQ(tensor.bytes, 64);
  EXPECT_EQ((uintptr_t)tensor.data % 64, 0);
  EXPECT_ERROR(mr_batch_tensor(batch, 1, &tensor), MR_OUT_OF_RANGE, "the batch has 1");
  mr_batch_release(batch);
  mr_loader_free(loader);
}

static void a_batch_outlives_loader_and_context(void) {
  mr_context* context = NULL;
  EXPECT_OK(mr_context_create(NULL, &context));
  mr_loader* loader = open_stream(NUMBERS, context, NULL);
  mr_context_free(context);  // the loader holds it
  mr_batch* batch = next_batch(loader);
  EXPECT(mr_batch_retain(batch) == batch);
  mr_batch_release(batch);
  mr_loader_free(loader);
  EXPECT_EQ(first_number(batch), 0);
  size_t size = 0;
  const char* token = mr_batch_token(batch, &size);
  EXPECT(size > 0 && strlen(token) == size);
  mr_batch_release(batch);
}

static void a_dlpack_tensor_holds_its_batch(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_batch* batch = next_batch(loader);
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
  struct DLManagedTensorVersioned* made = NULL;
  EXPECT_ERROR(mr_batch_dlpack(batch, 1, &made), MR_OUT_OF_RANGE, "no tensor 1");
  EXPECT_OK(mr_batch_dlpack(batch, 0, &made));
  mr_batch_release(batch);
  mr_loader_free(loader);
  dl_tensor* shared = (dl_tensor*)made;
  EXPECT_EQ(shared->version.major, 1);
  EXPECT_EQ(shared->version.minor, 0);
  EXPECT_EQ(shared->flags, 0);
  EXPECT(shared->data == tensor.data);
  EXPECT_EQ(shared->byte_offset, 0);
  EXPECT_EQ(shared->device_type, 1);
  EXPECT_EQ(shared->device_id, 0);
  EXPECT_EQ(shared->ndim, 1);
  EXPECT_EQ(shared->dtype.code, 0);
  EXPECT_EQ(shared->dtype.bits, 64);
  EXPECT_EQ(shared->dtype.lanes, 1);
  EXPECT_EQ(shared->shape[0], 8);
  EXPECT_EQ(shared->strides[0], 1);
  EXPECT_EQ(((int64_t*)shared->data)[7], 7);
  shared->deleter(shared);
}

static void a_wait_times_out_and_the_stream_goes_on(void) {
  mr_batch* batch = NULL;
  int32_t outcome = MR_FAILED;
  mr_loader* nothing = open_stream(NOTHING, NULL, NULL);
  EXPECT_OK(mr_loader_try_next(nothing, &batch, &outcome));
  EXPECT_EQ(outcome, MR_TIMED_OUT);
  EXPECT_OK(mr_loader_next(nothing, 0, &batch, &outcome));
  EXPECT_EQ(outcome, MR_TIMED_OUT);
  EXPECT_OK(mr_loader_next(nothing, 100000, &batch, &outcome));
  EXPECT_EQ(outcome, MR_TIMED_OUT);
  EXPECT(batch == NULL);
  mr_loader_free(nothing);

  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  int64_t number = 0;
  do {
    EXPECT_OK(number % 16 == 0 ? mr_loader_next(loader, 1000, &batch, &outcome)
                               : mr_loader_try_next(loader, &batch, &outcome));
    if (outcome != MR_BATCH) continue;
    EXPECT_EQ(first_number(batch), number);
    number += 8;
    mr_batch_release(batch);
  } while (outcome == MR_BATCH || outcome == MR_TIMED_OUT);
  EXPECT_EQ(outcome, MR_END);
  EXPECT_EQ(number, 24);
  mr_loader_free(loader);
}

static void a_stream_goes_on_from_its_tokens(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  static text begin, saved;
  begin.size = saved.size = 0;
  EXPECT_OK(mr_loader_save(loader, take_text, &begin));
  mr_batch* first = next_batch(loader);
  EXPECT_OK(mr_loader_save(loader, take_text, &saved));
  size_t size = 0;
  const char* token = mr_batch_token(first, &size);
  EXPECT(size == saved.size && memcmp(token, saved.bytes, size) == 0);

  mr_batch_release(next_batch(loader));
  EXPECT_OK(mr_loader_restore(loader, token, size));
  mr_batch* batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 8);
  mr_batch_release(batch);
  EXPECT_OK(mr_loader_restore(loader, begin.bytes, begin.size));
  batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 0);
  mr_batch_release(batch);
  EXPECT_OK(mr_loader_seek(loader, 2));
  batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 16);
  mr_batch_release(batch);
  mr_loader_free(loader);

  mr_open_options options = {sizeof options};
  options.token = token;
  options.token_bytes = size;
  loader = open_stream(NUMBERS, NULL, &options);
  batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 8);
  mr_batch_release(batch);
  mr_batch_release(first);
  mr_loader_free(loader);
}

static void ranks_share_the_rows_of_a_batch(void) {
  for (int rank = 0; rank < 2; ++rank) {
    mr_open_options options = {sizeof options};
    options.rank = rank;
    options.world = 2;
    options.prefetch_batches = 1;
    options.cpu_budget = 1;
    options.no_adapt = 1;
    mr_loader* loader = open_stream(NUMBERS, NULL, &options);
    mr_batch* batch = next_batch(loader);
    mr_info info = {sizeof info};
    EXPECT_OK(mr_batch_info(batch, &info));
    EXPECT_EQ(info.rows, 4);
    EXPECT_EQ(info.first_global_row, 4 * rank);
    EXPECT_EQ(info.global_valid_rows, 8);
    EXPECT_EQ(first_number(batch), 4 * rank);
    mr_batch_release(batch);
    mr_loader_free(loader);
  }
}

static void visit_field(void* user, const mr_field* field) {
  ++*(int*)user;
  EXPECT_EQ(field->struct_size, sizeof *field);
  EXPECT(strcmp(field->name, "value") == 0);
  EXPECT_EQ(field->dtype, MR_INT64);
  EXPECT_EQ(field->rank, 0);
}

static void a_loader_tells_its_length_and_schema(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_length length = {sizeof length};
  EXPECT_OK(mr_loader_length(loader, &length));
  EXPECT_EQ(length.infinite, 0);
  EXPECT_EQ(length.known, 1);
  EXPECT_EQ(length.batches, 3);
  EXPECT_EQ(length.batches_per_epoch, 3);
  int fields = 0;
  EXPECT_OK(mr_loader_schema(loader, visit_field, &fields));
  EXPECT_EQ(fields, 1);
  mr_loader_free(loader);
  loader = open_stream(LARGE, NULL, NULL);
  EXPECT_OK(mr_loader_length(loader, &length));
  EXPECT_EQ(length.infinite, 1);
  mr_loader_free(loader);
}

static void* cancel(void* loader) {
  mr_loader_cancel(loader);
  return NULL;
}

static void cancel_ends_a_wait(void) {
  mr_loader* loader = open_stream(NOTHING, NULL, NULL);
  static text begin;
  EXPECT_OK(mr_loader_save(loader, take_text, &begin));
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, NULL, cancel, loader), 0);
  mr_batch* batch = (mr_batch*)loader;
  int32_t outcome = MR_BATCH;
  EXPECT_ERROR(mr_loader_next(loader, -1, &batch, &outcome), MR_CANCELLED, "cancelled");
  EXPECT(batch == NULL);
  EXPECT_EQ(outcome, MR_FAILED);
  pthread_join(thread, NULL);
  EXPECT_ERROR(mr_loader_try_next(loader, &batch, &outcome), MR_CANCELLED, "cancelled");
  EXPECT_ERROR(mr_loader_restore(loader, begin.bytes, begin.size), MR_CANCELLED, "cancelled");
  mr_loader_free(loader);
}

static void held_batches_are_an_error_that_may_be_tried_again(void) {
  mr_context_options options = {sizeof options};
  options.threads = 2;
  options.memory_budget_bytes = 2 << 20;
  mr_context* context = NULL;
  EXPECT_OK(mr_context_create(&options, &context));
  mr_loader* loader = open_stream(LARGE, context, NULL);
  mr_batch* held[1000];
  int num_held = 0;
  mr_error* error = NULL;
  while (num_held < 1000) {
    int32_t outcome = MR_FAILED;
    error = mr_loader_next(loader, -1, &held[num_held], &outcome);
    if (error != NULL) break;
    EXPECT_EQ(outcome, MR_BATCH);
    ++num_held;
  }
  EXPECT_EQ(mr_error_code(error), MR_RESOURCE_EXHAUSTED);
  EXPECT_EQ(mr_error_retryable(error), 1);
  mr_record record = {sizeof record};
  mr_peer peer = {sizeof peer};
  EXPECT_EQ(mr_error_record(error, &record), 0);
  EXPECT_EQ(mr_error_peer(error, &peer), 0);
  mr_error_free(error);
  EXPECT(num_held > 0);
  for (int i = 0; i < num_held; ++i) mr_batch_release(held[i]);
  mr_batch* batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 8192 * num_held % 1000000);
  mr_batch_release(batch);
  mr_loader_free(loader);
  mr_context_free(context);
}

static const test_case cases[] = {
    {"ReadsEveryBatchToTheEnd", reads_every_batch_to_the_end},
    {"ATensorSaysWhatItIs", a_tensor_says_what_it_is},
    {"ABatchOutlivesLoaderAndContext", a_batch_outlives_loader_and_context},
    {"ADlpackTensorHoldsItsBatch", a_dlpack_tensor_holds_its_batch},
    {"AWaitTimesOutAndTheStreamGoesOn", a_wait_times_out_and_the_stream_goes_on},
    {"AStreamGoesOnFromItsTokens", a_stream_goes_on_from_its_tokens},
    {"RanksShareTheRowsOfABatch", ranks_share_the_rows_of_a_batch},
    {"ALoaderTellsItsLengthAndSchema", a_loader_tells_its_length_and_schema},
    {"CancelEndsAWait", cancel_ends_a_wait},
    {"HeldBatchesAreAnErrorThatMayBeTriedAgain", held_batches_are_an_error_that_may_be_tried_again},
    {NULL, NULL}};

int main(void) { return run_cases("CLoader", cases); }
