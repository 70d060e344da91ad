// Ops of the program.
#include "expect.h"
#include "streams.h"

// Numbers in batches of 8 rows, on which the op works that `version` names.
#define WITH_OP                                                \
  "stage { range { count: 20 } } stage { batch { size: 8 } } " \
  "stage { custom { op: \"test/op\" version: 1 options: \"by 3\" } name: \"own\" }"

typedef struct calls {
  int destroyed;
  uint32_t words[3][8];  // the first word of each row, by batch and global row
  uint32_t of_batch[3];
} calls;

static void destroy(void* user) { ++((calls*)user)->destroyed; }

static mr_error* multiply(void* user, const mr_batch_view* batch) {
  calls* called = user;
  if (strcmp(batch->options, "by 3") != 0) return mr_error_create(MR_INVALID_ARGUMENT, "options");
  if (batch->num_tensors != 1 || batch->tensors[0].dtype != MR_INT64) {
    return mr_error_create(MR_INTERNAL, "tensors");
  }
  int64_t* numbers = batch->tensors[0].data;
  for (int64_t row = 0; row < batch->rows; ++row) {
    if (batch->valid[row] && (uint64_t)numbers[row] != batch->ids[row].record) {
      return mr_error_create(MR_INTERNAL, "ids");
    }
    numbers[row] *= 3;
    uint32_t words[5];
    mr_batch_random(batch, row, words, 5);
    called->words[batch->index][batch->first_global_row + row] = words[0];
  }
  mr_batch_random(batch, -1, &called->of_batch[batch->index], 1);
  return NULL;
}

static mr_ops* make_ops(calls* called, mr_error* (*apply)(void*, const mr_batch_view*)) {
  mr_ops* ops = NULL;
  EXPECT_OK(mr_ops_create(&ops));
  mr_batch_op op = {sizeof op};
  op.apply = apply;
  op.user = called;
  op.destroy = destroy;
  EXPECT_OK(mr_ops_register_batch(ops, "test/op", 1, &op));
  return ops;
}

// Reads the stream of every rank with the op.
static void read_ranks(int world, calls* called) {
  mr_ops* ops = make_ops(called, multiply);
  for (int rank = 0; rank < world; ++rank) {
    mr_open_options options = {sizeof options};
    options.ops = ops;
    options.rank = rank;
    options.world = world;
    mr_loader* loader = open_stream(WITH_OP, NULL, &options);
    for (int i = 0; i < 3; ++i) {
      mr_batch* batch = next_batch(loader);
      if (i < 2 || rank == 0) EXPECT_EQ(first_number(batch), 3 * (8 * i + 8 * rank / world));
      mr_batch_release(batch);
    }
    EXPECT(next_batch(loader) == NULL);
    mr_loader_free(loader);
    EXPECT_EQ(called->destroyed, 0);
  }
  mr_ops_free(ops);
  EXPECT_EQ(called->destroyed, 1);
}

static void an_op_changes_batches_the_same_in_any_world(void) {
  static calls alone, shared;
  read_ranks(1, &alone);
  read_ranks(2, &shared);
  EXPECT(memcmp(alone.words, shared.words, sizeof alone.words) == 0);
  EXPECT(memcmp(alone.of_batch, shared.of_batch, sizeof alone.of_batch) == 0);
  EXPECT(alone.words[0][0] != alone.words[0][1] && alone.words[0][0] != alone.words[1][0]);
  EXPECT(alone.of_batch[0] != alone.of_batch[1]);
}

static mr_error* fail(void* user, const mr_batch_view* batch) {
  EXPECT(user != NULL);
  if (batch->index == 0) return NULL;
  return mr_error_create(MR_OUT_OF_RANGE, "the op has had enough");
}

static void an_error_of_an_op_is_that_of_its_batch(void) {
  static calls called;
  mr_ops* ops = make_ops(&called, fail);
  mr_open_options options = {sizeof options};
  options.ops = ops;
  mr_loader* loader = open_stream(WITH_OP, NULL, &options);
  mr_ops_free(ops);  // the loader keeps the op
  mr_batch_release(next_batch(loader));
  mr_batch* batch = NULL;
  int32_t outcome = MR_BATCH;
  EXPECT_ERROR(mr_loader_next(loader, -1, &batch, &outcome), MR_OUT_OF_RANGE,
               "the op has had enough");
  EXPECT_EQ(called.destroyed, 0);
  mr_loader_free(loader);
  EXPECT_EQ(called.destroyed, 1);
}

static void wrong_ops_are_told(void) {
  static calls called;
  mr_ops* ops = make_ops(&called, fail);
  mr_batch_op op = {sizeof op};
  op.user = &called;
  op.destroy = destroy;
  EXPECT_ERROR(mr_ops_create(NULL), MR_INVALID_ARGUMENT, "ops is NULL");
  EXPECT_ERROR(mr_ops_register_batch(NULL, "a", 1, &op), MR_INVALID_ARGUMENT, "ops is NULL");
  EXPECT_ERROR(mr_ops_register_batch(ops, NULL, 1, &op), MR_INVALID_ARGUMENT, "name is NULL");
  EXPECT_ERROR(mr_ops_register_batch(ops, "a", 1, NULL), MR_INVALID_ARGUMENT, "op is NULL");
  EXPECT_EQ(called.destroyed, 0);
  EXPECT_ERROR(mr_ops_register_batch(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "apply is NULL");
  EXPECT_EQ(called.destroyed, 1);
  op.apply = fail;
  EXPECT_ERROR(mr_ops_register_batch(ops, "test/op", 1, &op), MR_ALREADY_EXISTS, "test/op");
  EXPECT_EQ(called.destroyed, 2);
  EXPECT_ERROR(mr_ops_register_batch(ops, "a b", 1, &op), MR_INVALID_ARGUMENT, "a b");
  EXPECT_ERROR(mr_ops_register_batch(ops, "a", 0, &op), MR_INVALID_ARGUMENT, "version");
  op.struct_size = 0;
  EXPECT_ERROR(mr_ops_register_batch(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "struct_size");
  EXPECT_EQ(called.destroyed, 4);
  mr_ops_free(ops);
  EXPECT_EQ(called.destroyed, 5);
  mr_ops_free(NULL);

  mr_plan* plan = make_plan(WITH_OP);
  mr_loader* loader = NULL;
  mr_error* error = mr_loader_open(plan, NULL, NULL, &loader);
  EXPECT(error != NULL && strstr(mr_error_message(error), "test/op") != NULL);
  mr_error_free(error);
  mr_plan_free(plan);
}

static void errors_of_the_program_are_as_it_says(void) {
  EXPECT_ERROR(mr_error_create(MR_NOT_FOUND, "x"), MR_NOT_FOUND, "x");
  EXPECT_ERROR(mr_error_create(MR_OK, NULL), MR_UNKNOWN, "");
  EXPECT_ERROR(mr_error_create(99, "y"), MR_UNKNOWN, "y");
}

static const test_case cases[] = {
    {"AnOpChangesBatchesTheSameInAnyWorld", an_op_changes_batches_the_same_in_any_world},
    {"AnErrorOfAnOpIsThatOfItsBatch", an_error_of_an_op_is_that_of_its_batch},
    {"WrongOpsAreTold", wrong_ops_are_told},
    {"ErrorsOfTheProgramAreAsItSays", errors_of_the_program_are_as_it_says},
    {NULL, NULL}};

int main(void) { return run_cases("COps", cases); }
