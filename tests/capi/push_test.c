// Records that are lent by the program, and calls when there is room for more.
#include <millrace_ops.h>
#include <millrace_push.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "expect.h"
#include "streams.h"

#define RECORDS 6
#define TWO (2 * (100 + 64))  // bytes of two records in a source

// Records of the program, and what became of each.
typedef struct lent {
  char bytes[RECORDS][100];
  atomic_int released[RECORDS];
  atomic_int seen;  // by the op, in their own memory
} lent;

static lent* make_lent(void) {
  lent* all = calloc(1, sizeof *all);
  for (int i = 0; i < RECORDS; ++i) memset(all->bytes[i], 'a' + i, sizeof all->bytes[i]);
  return all;
}

static void release(void* user) { atomic_fetch_add((atomic_int*)user, 1); }

static mr_lent_record lend(lent* all, int i) {
  mr_lent_record record = {sizeof record};
  record.data = all->bytes[i];
  record.size = sizeof all->bytes[i];
  record.release = release;
  record.user = &all->released[i];
  return record;
}

static void expect_released(const lent* all, int count) {
  for (int i = 0; i < RECORDS; ++i) EXPECT_EQ(all->released[i], i < count ? 1 : 0);
}

// Replaces "record" by its first byte, where it is one of those that were lent.
static mr_error* look(void* user, const mr_sample_view* sample) {
  lent* all = user;
  const char* data = sample->reads[0].data;
  for (int i = 0; i < RECORDS; ++i) {
    if (data == all->bytes[i] && sample->reads[0].shape[0] == 100) atomic_fetch_add(&all->seen, 1);
  }
  *(uint8_t*)sample->writes[0] = (uint8_t)data[0];
  return NULL;
}

static mr_loader* open_lent(mr_push* push, lent* all) {
  mr_ops* ops = NULL;
  EXPECT_OK(mr_ops_create(&ops));
  const char* record[] = {"record"};
  mr_field first = {sizeof first};
  first.name = "first";
  first.dtype = MR_UINT8;
  const mr_field* writes[] = {&first};
  mr_sample_op op = {sizeof op};
  op.apply = look;
  op.user = all;
  op.reads = op.removes = record;
  op.num_reads = op.num_writes = op.num_removes = 1;
  op.writes = writes;
  EXPECT_OK(mr_ops_register_sample(ops, "look", 1, &op));
  mr_open_options options = {sizeof options};
  options.push = push;
  options.ops = ops;
  mr_loader* loader = open_stream(
      "stage { push {} } stage { custom { op: \"look\" version: 1 } } "
      "stage { batch { size: 2 } }",
      NULL, &options);
  mr_ops_free(ops);
  return loader;
}

static mr_push* make_push(uint64_t max_bytes) {
  mr_push_options options = {sizeof options};
  options.max_bytes = max_bytes;
  mr_push* push = NULL;
  EXPECT_OK(mr_push_create(&options, &push));
  return push;
}

static void push_lent(mr_push* push, lent* all, int i, int32_t expected) {
  const mr_lent_record record = lend(all, i);
  int32_t taken = -1;
  EXPECT_OK(mr_push_lend(push, &record, 0, &taken));
  EXPECT_EQ(taken, expected);
}

static void ops_see_the_programs_memory_until_it_is_released(void) {
  lent* all = make_lent();
  mr_push* push = make_push(0);
  mr_loader* loader = open_lent(push, all);
  for (int i = 0; i < RECORDS; ++i) push_lent(push, all, i, 1);
  EXPECT_OK(mr_push_finish(push));
  for (int i = 0; i < RECORDS; i += 2) {
    mr_batch* batch = next_batch(loader);
    mr_tensor tensor = {sizeof tensor};
    EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
    EXPECT_EQ(*(const uint8_t*)tensor.data, 'a' + i);
    expect_released(all, i + 2);
    mr_batch_release(batch);
  }
  EXPECT(next_batch(loader) == NULL);
  EXPECT_EQ(all->seen, RECORDS);
  mr_loader_free(loader);
  mr_push_free(push);
  expect_released(all, RECORDS);
  free(all);
}

static void records_that_are_not_taken_are_released(void) {
  lent* all = make_lent();
  mr_push* push = make_push(1);
  mr_lent_record record = lend(all, 1);
  int32_t taken = 7;
  EXPECT_ERROR(mr_push_lend(NULL, &record, 0, &taken), MR_INVALID_ARGUMENT, "push is NULL");
  EXPECT_ERROR(mr_push_lend(push, NULL, 0, &taken), MR_INVALID_ARGUMENT, "record is NULL");
  EXPECT_ERROR(mr_push_lend(push, &record, 0, NULL), MR_INVALID_ARGUMENT, "taken is NULL");
  record.struct_size = 0;
  EXPECT_ERROR(mr_push_lend(push, &record, 0, &taken), MR_INVALID_ARGUMENT, "struct_size");
  expect_released(all, 0);
  record = lend(all, 1);
  record.data = NULL;
  EXPECT_ERROR(mr_push_lend(push, &record, 0, &taken), MR_INVALID_ARGUMENT, "data is NULL");
  EXPECT_EQ(all->released[1], 1);
  push_lent(push, all, 0, 1);
  push_lent(push, all, 2, 0);  // full
  record = lend(all, 3);
  EXPECT_OK(mr_push_lend(push, &record, 1000, &taken));
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(all->released[0], 0);
  EXPECT_OK(mr_push_finish(push));
  record = lend(all, 4);
  EXPECT_ERROR(mr_push_lend(push, &record, -1, &taken), MR_FAILED_PRECONDITION, NULL);
  EXPECT_EQ(all->released[4], 1);
  mr_push_free(push);  // nothing has read the first one
  expect_released(all, 5);
  free(all);
}

// A record that waits for room, until the loader is gone.
typedef struct waiting {
  mr_push* push;
  lent* all;
} waiting;

static void* wait_for_room(void* user) {
  const waiting* call = user;
  const mr_lent_record record = lend(call->all, 3);
  int32_t taken = 7;
  EXPECT_ERROR(mr_push_lend(call->push, &record, -1, &taken), MR_CANCELLED, NULL);
  EXPECT_EQ(call->all->released[3], 1);
  return NULL;
}

static void records_are_released_with_a_loader_that_is_cancelled(void) {
  lent* all = make_lent();
  mr_push* push = make_push(TWO);
  for (int i = 0; i < 2; ++i) push_lent(push, all, i, 1);
  push_lent(push, all, 2, 0);
  mr_loader* loader = open_lent(push, all);
  waiting call = {push, all};
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, NULL, wait_for_room, &call), 0);
  mr_loader_cancel(loader);
  pthread_join(thread, NULL);
  mr_loader_free(loader);
  EXPECT_EQ(all->released[0], 1);
  EXPECT_EQ(all->released[1], 1);
  mr_push_free(push);
  expect_released(all, 4);
  free(all);
}

static void calls_come_once_with_room_or_the_end(void) {
  lent* all = make_lent();
  atomic_int calls[3] = {0, 0, 0};
  mr_push* push = make_push(TWO);
  EXPECT_ERROR(mr_push_on_room(NULL, release, &calls[0]), MR_INVALID_ARGUMENT, "push is NULL");
  EXPECT_EQ(calls[0], 1);
  EXPECT_ERROR(mr_push_on_room(push, NULL, NULL), MR_INVALID_ARGUMENT, "call is NULL");
  for (int i = 0; i < 2; ++i) push_lent(push, all, i, 1);
  push_lent(push, all, 2, 0);
  EXPECT_OK(mr_push_on_room(push, release, &calls[1]));
  EXPECT_EQ(calls[1], 0);
  mr_loader* loader = open_lent(push, all);
  mr_batch_release(next_batch(loader));
  while (calls[1] == 0) sched_yield();
  push_lent(push, all, 3, 1);
  EXPECT_OK(mr_push_on_room(push, release, &calls[2]));
  mr_loader_free(loader);
  EXPECT_EQ(calls[2], 1);
  EXPECT_OK(mr_push_on_room(push, release, &calls[0]));  // at once
  EXPECT_EQ(calls[0], 2);
  mr_push_free(push);
  EXPECT_EQ(calls[1], 1);
  expect_released(all, 4);
  free(all);
}

static const test_case cases[] = {
    {"OpsSeeTheProgramsMemoryUntilItIsReleased", ops_see_the_programs_memory_until_it_is_released},
    {"RecordsThatAreNotTakenAreReleased", records_that_are_not_taken_are_released},
    {"RecordsAreReleasedWithALoaderThatIsCancelled",
     records_are_released_with_a_loader_that_is_cancelled},
    {"CallsComeOnceWithRoomOrTheEnd", calls_come_once_with_room_or_the_end},
    {NULL, NULL}};

int main(void) { return run_cases("CPush", cases); }
