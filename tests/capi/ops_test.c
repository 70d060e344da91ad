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

// Replaces "value" by [3 * value, its first random word], and adds "twice".
static mr_error* expand(void* user, const mr_run_view* run) {
  EXPECT(user != NULL);
  const mr_column* column = run->reads;
  if (run->num_reads != 1 || run->num_writes != 2 || strcmp(run->options, "by 3") != 0) {
    return mr_error_create(MR_INTERNAL, "fields");
  }
  int64_t* pairs = run->writes[0];
  double* twice = run->writes[1];
  for (int64_t row = 0; row < run->rows; ++row) {
    int64_t number = -1;
    mr_tensor value = {sizeof value};
    mr_error* error = mr_run_value(run->run, 0, row, &value);
    if (error != NULL) return error;
    memcpy(&number, value.data, sizeof number);
    if (!run->ok[row] || (uint64_t)number != run->ids[row].record) {
      return mr_error_create(MR_INTERNAL, "ids");
    }
    if (column->rank == 0 &&
        memcmp(&number, (const char*)column->first + row * column->stride_bytes, 8) != 0) {
      return mr_error_create(MR_INTERNAL, "columns");
    }
    if (pairs[2 * row] != 0 || twice[row] != 0) return mr_error_create(MR_INTERNAL, "not zeroed");
    uint32_t word[2];
    mr_run_random(run->run, row, 1, word, 2);
    pairs[2 * row] = 3 * number;
    pairs[2 * row + 1] = word[0];
    twice[row] = 2.0 * (double)number;
  }
  return NULL;
}

#define WITH_RUN_OP                                                                   \
  "stage { range { count: 20 } } "                                                    \
  "stage { custom { op: \"test/run\" version: 1 options: \"by 3\" } name: \"own\" } " \
  "stage { batch { size: 8 } }"

static mr_ops* make_run_ops(calls* called, mr_error* (*apply)(void*, const mr_run_view*)) {
  mr_ops* ops = NULL;
  EXPECT_OK(mr_ops_create(&ops));
  const char* reads[] = {"value"};
  mr_field pair = {sizeof pair};
  pair.name = "value";
  pair.dtype = MR_INT64;
  pair.rank = 1;
  pair.shape[0] = 2;
  mr_field twice = {sizeof twice};
  twice.name = "twice";
  twice.dtype = MR_FLOAT64;
  const mr_field* writes[] = {&pair, &twice};
  mr_run_op op = {sizeof op};
  op.apply = apply;
  op.user = called;
  op.destroy = destroy;
  op.reads = reads;
  op.num_reads = 1;
  op.writes = writes;
  op.num_writes = 2;
  op.preferred_rows = 4;
  EXPECT_OK(mr_ops_register_run(ops, "test/run", 1, &op));
  return ops;
}

// Reads the first two batches of every rank into `pairs`, in the order of global rows.
static void read_pairs(int world, int threads, int64_t* pairs) {
  static calls called;
  called.destroyed = 0;
  mr_ops* ops = make_run_ops(&called, expand);
  for (int rank = 0; rank < world; ++rank) {
    mr_loader* loader = open_with_ops(WITH_RUN_OP, ops, rank, world, threads);
    for (int i = 0; i < 2; ++i) {
      mr_batch* batch = next_batch(loader);
      mr_tensor tensor = {sizeof tensor}, twice = {sizeof twice};
      EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
      EXPECT_OK(mr_batch_tensor(batch, 1, &twice));
      EXPECT(strcmp(tensor.name, "value") == 0 && tensor.rank == 2 && tensor.shape[1] == 2);
      EXPECT(strcmp(twice.name, "twice") == 0 && twice.dtype == MR_FLOAT64);
      const int64_t first = 8 * i + 8 * rank / world;
      memcpy(pairs + 2 * first, tensor.data, tensor.bytes);
      EXPECT(((const double*)twice.data)[1] == 2.0 * (double)(first + 1));
      mr_batch_release(batch);
    }
    mr_loader_free(loader);
  }
  mr_ops_free(ops);
  EXPECT_EQ(called.destroyed, 1);
}

static void an_op_on_runs_makes_the_same_bits_in_any_world(void) {
  int64_t alone[32], shared[32], threaded[32];
  read_pairs(1, 1, alone);
  read_pairs(2, 2, shared);
  read_pairs(1, 8, threaded);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(alone[2 * i], 3 * i);
  EXPECT(alone[1] != alone[3]);
  EXPECT(memcmp(alone, shared, sizeof alone) == 0);
  EXPECT(memcmp(alone, threaded, sizeof alone) == 0);
}

// Fails as a whole for the run that has number 13, and for number 17 by the row.
static mr_error* fail_rows(void* user, const mr_run_view* run) {
  mr_error* error = expand(user, run);
  for (int64_t row = 0; row < run->rows && error == NULL; ++row) {
    if (run->ids[row].record == 13) error = mr_error_create(MR_DATA_LOSS, "unlucky");
    if (run->ids[row].record == 17) {
      mr_run_fail(run->run, row, mr_error_create(MR_DATA_LOSS, "random"));
      mr_tensor value = {sizeof value};
      EXPECT_ERROR(mr_run_value(run->run, 0, row, &value), MR_FAILED_PRECONDITION, "has failed");
    }
  }
  return error;
}

static void an_error_of_a_run_is_that_of_its_row(void) {
  static calls called;
  mr_ops* ops = make_run_ops(&called, fail_rows);
  mr_loader* loader = open_with_ops(WITH_RUN_OP, ops, 0, 1, 2);
  mr_ops_free(ops);
  mr_batch_release(next_batch(loader));
  mr_batch* batch = NULL;
  int32_t outcome = MR_BATCH;
  for (int i = 0; i < 2; ++i) {
    mr_error* error = mr_loader_next(loader, -1, &batch, &outcome);
    EXPECT_EQ(mr_error_code(error), MR_DATA_LOSS);
    EXPECT(strstr(mr_error_message(error), i == 0 ? "unlucky" : "random") != NULL);
    mr_record record = {sizeof record};
    EXPECT_EQ(mr_error_record(error, &record), 1);
    EXPECT_EQ(record.position, i == 0 ? 13 : 17);
    mr_error_free(error);
    EXPECT_OK(mr_loader_seek(loader, 2));
  }
  mr_loader_free(loader);
  EXPECT_EQ(called.destroyed, 1);
}

// "words": the bytes of "record" without their first.
static mr_error* cut(void* user, const mr_run_view* run) {
  EXPECT(user != NULL && run->writes[0] == NULL);
  for (int64_t row = 0; row < run->rows; ++row) {
    mr_tensor value = {sizeof value};
    void* data = NULL;
    mr_error* error = mr_run_value(run->run, 0, row, &value);
    if (error != NULL) return error;
    EXPECT_EQ(value.dtype, MR_BYTES);
    EXPECT_EQ(value.rank, 1);
    const int64_t size = value.shape[0] - 1;
    EXPECT_ERROR(mr_run_value(run->run, 1, row, &value), MR_OUT_OF_RANGE, "no field 1");
    EXPECT_ERROR(mr_run_allocate(run->run, 0, run->rows, &size, 1, &data), MR_OUT_OF_RANGE, "row");
    EXPECT_ERROR(mr_run_allocate(run->run, 0, row, &size, 0, &data), MR_INVALID_ARGUMENT,
                 "which has no rows of []");
    const int64_t negative = -5, huge = INT64_MAX;
    EXPECT_ERROR(mr_run_allocate(run->run, 0, row, &negative, 1, &data), MR_INVALID_ARGUMENT,
                 "which has no rows of [-5]");
    EXPECT_ERROR(mr_run_allocate(run->run, 0, row, &huge, 1, &data), MR_INVALID_ARGUMENT,
                 "which has no rows of");
    error = mr_run_allocate(run->run, 0, row, &size, 1, &data);
    if (error != NULL) return error;
    memcpy(data, (const char*)value.data + 1, (size_t)size);
  }
  return NULL;
}

static void an_op_on_runs_writes_values_of_any_size(void) {
  static calls called;
  mr_ops* ops = NULL;
  EXPECT_OK(mr_ops_create(&ops));
  const char* record[] = {"record"};
  mr_field words = {sizeof words};
  words.name = "words";
  words.dtype = MR_BYTES;
  words.rank = 1;
  words.shape[0] = -1;
  const mr_field* writes[] = {&words};
  mr_run_op op = {sizeof op};
  op.apply = cut;
  op.user = &called;
  op.reads = op.removes = record;
  op.num_reads = op.num_removes = op.num_writes = 1;
  op.writes = writes;
  EXPECT_OK(mr_ops_register_run(ops, "cut", 1, &op));
  const void* records[] = {"one", "three", "x"};
  const size_t sizes[] = {3, 5, 1};
  mr_memory* memory = NULL;
  EXPECT_OK(mr_memory_create(records, sizes, 3, &memory));
  const char* names[] = {"memory"};
  const mr_memory* handles[] = {memory};
  mr_open_options options = {sizeof options};
  options.ops = ops;
  options.memory_names = names;
  options.memory = handles;
  options.num_memory = 1;
  mr_loader* loader = open_stream(
      "stage { memory {} } stage { custom { op: \"cut\" version: 1 } } "
      "stage { padded_batch { size: 3 } }",
      NULL, &options);
  mr_memory_free(memory);
  mr_ops_free(ops);
  mr_batch* batch = next_batch(loader);
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
  EXPECT(strcmp(tensor.name, "words") == 0);
  EXPECT_EQ(tensor.bytes, 12);
  EXPECT(memcmp(tensor.data, "ne\0\0hree\0\0\0\0", 12) == 0);
  mr_batch_release(batch);
  mr_loader_free(loader);
}

static void wrong_ops_on_runs_are_told(void) {
  static calls called;
  mr_ops* ops = NULL;
  EXPECT_OK(mr_ops_create(&ops));
  mr_run_op op = {sizeof op};
  op.user = &called;
  op.destroy = destroy;
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, NULL), MR_INVALID_ARGUMENT, "op is NULL");
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "apply is NULL");
  op.apply = expand;
  op.num_reads = 1;
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "name of reads");
  op.num_reads = 0;
  op.num_writes = 1;
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "writes is NULL");
  mr_field field = {sizeof field};
  const mr_field* writes[] = {&field, &field};
  op.writes = writes;
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "name is NULL");
  field.name = "a";
  field.dtype = 8;
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "dtype 8");
  field.dtype = MR_UINT8;
  field.rank = 7;
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "rank 7");
  field.rank = 1;
  field.shape[0] = -5;
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, &op), MR_INVALID_ARGUMENT,
               "no value of field \"a\" has the shape");
  field.rank = 0;
  op.num_writes = 2;
  EXPECT_ERROR(mr_ops_register_run(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "\"a\" twice");
  EXPECT_EQ(called.destroyed, 8);
  mr_ops_free(ops);
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
    {"AnOpOnRunsMakesTheSameBitsInAnyWorld", an_op_on_runs_makes_the_same_bits_in_any_world},
    {"AnErrorOfARunIsThatOfItsRow", an_error_of_a_run_is_that_of_its_row},
    {"AnOpOnRunsWritesValuesOfAnySize", an_op_on_runs_writes_values_of_any_size},
    {"WrongOpsOnRunsAreTold", wrong_ops_on_runs_are_told},
    {"ErrorsOfTheProgramAreAsItSays", errors_of_the_program_are_as_it_says},
    {NULL, NULL}};

int main(void) { return run_cases("COps", cases); }
