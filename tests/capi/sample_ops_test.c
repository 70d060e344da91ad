// Ops of the program that work on one sample at a time.
#include <millrace_ops.h>

#include "expect.h"
#include "streams.h"

typedef mr_error* apply_function(void* user, const mr_sample_view* sample);

static void destroy(void* user) { ++*(int*)user; }

static mr_field field_of(const char* name, int32_t dtype, int32_t rank, int64_t extent) {
  mr_field field = {sizeof field};
  field.name = name;
  field.dtype = dtype;
  field.rank = rank;
  field.shape[0] = extent;
  return field;
}

// Makes a table with the op "test/sample", which reads `reads` and writes `writes` instead.
static mr_ops* make_ops(apply_function* apply, const char* reads, const mr_field* writes,
                        int* destroyed) {
  mr_ops* ops = NULL;
  EXPECT_OK(mr_ops_create(&ops));
  mr_sample_op op = {sizeof op};
  op.apply = apply;
  op.user = destroyed;
  op.destroy = destroy;
  op.reads = op.removes = &reads;
  op.num_reads = op.num_writes = 1;
  op.num_removes = strcmp(reads, writes->name) != 0;
  op.writes = &writes;
  EXPECT_OK(mr_ops_register_sample(ops, "test/sample", 1, &op));
  return ops;
}

#define OP "stage { custom { op: \"test/sample\" version: 1 options: \"by 3\" } name: \"own\" } "
#define WITH_OP "stage { range { count: 20 } } " OP "stage { batch { size: 8 } }"

// Replaces "value" by [3 * value, its first random word].
static mr_error* expand(void* user, const mr_sample_view* sample) {
  EXPECT(user != NULL);
  if (sample->num_reads != 1 || sample->num_writes != 1 || strcmp(sample->options, "by 3") != 0) {
    return mr_error_create(MR_INTERNAL, "fields");
  }
  const int64_t number = *(const int64_t*)sample->reads[0].data;
  int64_t* pair = sample->writes[0];
  EXPECT(strcmp(sample->reads[0].name, "value") == 0 && sample->reads[0].rank == 0);
  EXPECT_EQ(sample->id->record, number);
  EXPECT_EQ(sample->position, number);
  if (pair[0] != 0 || pair[1] != 0) return mr_error_create(MR_INTERNAL, "not zeroed");
  uint32_t words[2], again[1];
  mr_sample_random(sample->sample, words, 2);
  mr_sample_random(sample->sample, again, 1);
  EXPECT_EQ(words[0], again[0]);
  pair[0] = 3 * number;
  pair[1] = words[0];
  return NULL;
}

// Reads the first two batches of every rank into `pairs`, in the order of global rows.
static void read_pairs(int world, int threads, int64_t* pairs) {
  int destroyed = 0;
  const mr_field pair = field_of("value", MR_INT64, 1, 2);
  mr_ops* ops = make_ops(expand, "value", &pair, &destroyed);
  for (int rank = 0; rank < world; ++rank) {
    mr_loader* loader = open_with_ops(WITH_OP, ops, rank, world, threads);
    for (int i = 0; i < 2; ++i) {
      mr_batch* batch = next_batch(loader);
      mr_tensor tensor = {sizeof tensor};
      EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
      EXPECT(tensor.rank == 2 && tensor.shape[1] == 2);
      memcpy(pairs + 2 * (8 * i + 8 * rank / world), tensor.data, tensor.bytes);
      mr_batch_release(batch);
    }
    mr_loader_free(loader);
  }
  EXPECT_EQ(destroyed, 0);
  mr_ops_free(ops);
  EXPECT_EQ(destroyed, 1);
}

static void an_op_makes_the_same_bits_for_any_threads_and_ranks(void) {
  int64_t alone[32], two[32], eight[32], shared[32];
  read_pairs(1, 1, alone);
  read_pairs(1, 2, two);
  read_pairs(1, 8, eight);
  read_pairs(2, 2, shared);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(alone[2 * i], 3 * i);
  EXPECT(alone[1] != alone[3]);
  EXPECT(memcmp(alone, two, sizeof alone) == 0);
  EXPECT(memcmp(alone, eight, sizeof alone) == 0);
  EXPECT(memcmp(alone, shared, sizeof alone) == 0);
}

static mr_error* fail(void* user, const mr_sample_view* sample) {
  if (sample->position == 13) return mr_error_create(MR_DATA_LOSS, "unlucky");
  if (sample->position == 17) return mr_error_create(MR_OUT_OF_RANGE, "random");
  return expand(user, sample);
}

static void an_error_is_that_of_its_sample(void) {
  int destroyed = 0;
  const mr_field pair = field_of("value", MR_INT64, 1, 2);
  mr_ops* ops = make_ops(fail, "value", &pair, &destroyed);
  mr_loader* loader = open_with_ops(WITH_OP, ops, 0, 1, 2);
  mr_ops_free(ops);  // the loader keeps the op
  mr_batch_release(next_batch(loader));
  mr_batch* batch = NULL;
  int32_t outcome = MR_BATCH;
  for (int i = 0; i < 2; ++i) {
    mr_error* error = mr_loader_next(loader, -1, &batch, &outcome);
    EXPECT_EQ(mr_error_code(error), i == 0 ? MR_DATA_LOSS : MR_OUT_OF_RANGE);
    EXPECT(strstr(mr_error_message(error), i == 0 ? "unlucky" : "random") != NULL);
    mr_record record = {sizeof record};
    EXPECT_EQ(mr_error_record(error, &record), 1);
    EXPECT_EQ(record.position, i == 0 ? 13 : 17);
    EXPECT_EQ(record.reason, i == 0 ? MR_RECORD_VALUE : MR_RECORD_UNKNOWN);
    mr_error_free(error);
    EXPECT_OK(mr_loader_seek(loader, 2));
  }
  mr_loader_free(loader);
  EXPECT_EQ(destroyed, 1);
}

// "words": the bytes of "record" without their first.
static mr_error* cut(void* user, const mr_sample_view* sample) {
  EXPECT(user != NULL && sample->writes[0] == NULL);
  const mr_tensor* record = sample->reads;
  EXPECT_EQ(record->dtype, MR_BYTES);
  const int64_t size = record->shape[0] - 1, negative = -5;
  void* data = NULL;
  mr_sample* handle = sample->sample;
  EXPECT_ERROR(mr_sample_allocate(handle, 1, &size, 1, &data), MR_OUT_OF_RANGE, "no field 1");
  EXPECT_ERROR(mr_sample_allocate(handle, 0, &size, -1, &data), MR_INVALID_ARGUMENT, "rank is -1");
  EXPECT_ERROR(mr_sample_allocate(handle, 0, &size, 0, &data), MR_INVALID_ARGUMENT,
               "does not admit []");
  EXPECT_ERROR(mr_sample_allocate(handle, 0, &negative, 1, &data), MR_INVALID_ARGUMENT,
               "does not admit [-5]");
  EXPECT_ERROR(mr_sample_allocate(NULL, 0, &size, 1, &data), MR_INVALID_ARGUMENT, "sample is NULL");
  mr_error* error = mr_sample_allocate(handle, 0, &size, 1, &data);
  if (error != NULL) return error;
  memcpy(data, (const char*)record->data + 1, (size_t)size);
  return NULL;
}

static void an_op_writes_values_of_any_size(void) {
  int destroyed = 0;
  const mr_field words = field_of("words", MR_BYTES, 1, -1);
  mr_ops* ops = make_ops(cut, "record", &words, &destroyed);
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
  mr_loader* loader =
      open_stream("stage { memory {} } " OP "stage { padded_batch { size: 3 } }", NULL, &options);
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
  EXPECT_EQ(destroyed, 1);
}

static void wrong_ops_are_told(void) {
  int destroyed = 0;
  mr_ops* ops = NULL;
  EXPECT_OK(mr_ops_create(&ops));
  mr_sample_op op = {sizeof op};
  op.user = &destroyed;
  op.destroy = destroy;
  EXPECT_ERROR(mr_ops_register_sample(NULL, "a", 1, &op), MR_INVALID_ARGUMENT, "ops is NULL");
  EXPECT_ERROR(mr_ops_register_sample(ops, NULL, 1, &op), MR_INVALID_ARGUMENT, "name is NULL");
  EXPECT_ERROR(mr_ops_register_sample(ops, "a", 1, NULL), MR_INVALID_ARGUMENT, "op is NULL");
  EXPECT_EQ(destroyed, 0);
  EXPECT_ERROR(mr_ops_register_sample(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "apply is NULL");
  op.apply = expand;
  op.num_reads = 1;
  EXPECT_ERROR(mr_ops_register_sample(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "name of reads");
  op.num_reads = 0;
  op.num_removes = 1;
  EXPECT_ERROR(mr_ops_register_sample(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "name of removes");
  op.num_removes = 0;
  const mr_field field = field_of("a", 8, 0, 0);
  const mr_field* writes[] = {&field};
  op.writes = writes;
  op.num_writes = 1;
  EXPECT_ERROR(mr_ops_register_sample(ops, "a", 1, &op), MR_INVALID_ARGUMENT, "dtype 8");
  op.num_writes = 0;
  EXPECT_ERROR(mr_ops_register_sample(ops, "a b", 1, &op), MR_INVALID_ARGUMENT, "a b");
  EXPECT_EQ(destroyed, 5);
  EXPECT_OK(mr_ops_register_sample(ops, "a", 1, &op));
  EXPECT_ERROR(mr_ops_register_sample(ops, "a", 1, &op), MR_ALREADY_EXISTS, "version 1");
  op.struct_size = 0;
  EXPECT_ERROR(mr_ops_register_sample(ops, "b", 1, &op), MR_INVALID_ARGUMENT, "struct_size");
  EXPECT_EQ(destroyed, 6);
  mr_ops_free(ops);
  EXPECT_EQ(destroyed, 7);
}

static const test_case cases[] = {{"AnOpMakesTheSameBitsForAnyThreadsAndRanks",
                                   an_op_makes_the_same_bits_for_any_threads_and_ranks},
                                  {"AnErrorIsThatOfItsSample", an_error_is_that_of_its_sample},
                                  {"AnOpWritesValuesOfAnySize", an_op_writes_values_of_any_size},
                                  {"WrongOpsAreTold", wrong_ops_are_told},
                                  {NULL, NULL}};

int main(void) { return run_cases("CSampleOps", cases); }
