// Sums of gradients: of threads of this process, and of processes that meet in a folder.
#include <math.h>
#include <millrace_collectives.h>
#include <unistd.h>

#include "expect.h"
#include "ranks.h"

static const int kBothEnd[2] = {0, 0};
#define DEAD 9
static const int kOneDies[2] = {0, DEAD};
#define ELEMENTS 1000

// A bucket for each gradient.
static mr_reducer_options small_buckets(void) {
  mr_reducer_options options = {sizeof options};
  options.bucket_bytes = options.edge_bucket_bytes = 1024;
  return options;
}

static void take_steps(mr_comm* comm) {
  const mr_reducer_options options = small_buckets();
  const int32_t rank = mr_comm_rank(comm), size = mr_comm_size(comm);
  mr_reducer* reducer = make_reducer(comm, 3, ELEMENTS, &options);
  const float* const first = gradient_of(reducer, 0);
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < 3; ++i) give(reducer, i, (float)(rank + 10 * step + 100 * (int)i));
    EXPECT_OK(mr_reducer_finish(reducer));
    for (size_t i = 0; i < 3; ++i) {
      const int wanted = size * (size - 1) / 2 + size * (10 * step + 100 * (int)i);
      EXPECT_EQ(gradient_of(reducer, i)[ELEMENTS - 1], wanted);
    }
    EXPECT(gradient_of(reducer, 0) == first);
    EXPECT_EQ((uintptr_t)first % 64, 0);
  }
  mr_step_outcome outcome = {sizeof outcome};
  EXPECT_OK(mr_reducer_outcome(reducer, &outcome));
  EXPECT_EQ(outcome.complete, 1);
  EXPECT_EQ(outcome.skip, 0);
  EXPECT(outcome.clip_factor == 1);
  mr_reducer_counters counters = {sizeof counters};
  EXPECT_OK(mr_reducer_get_counters(reducer, &counters));
  EXPECT_EQ(counters.steps, 4);
  EXPECT_EQ(counters.num_buckets, 3);
  EXPECT(counters.bytes >= 4 * 3 * ELEMENTS * (int)sizeof(float));
  EXPECT(counters.seconds >= 0 && counters.exposed_seconds >= 0);
  size_t bucket = 7;
  EXPECT_OK(mr_reducer_bucket_of(reducer, 2, &bucket));
  EXPECT_EQ(bucket, 2);
  static text summaries[2];
  if (rank < 2) {
    summaries[rank].size = 0;
    EXPECT_OK(mr_reducer_summary(reducer, take_text, &summaries[rank]));
    EXPECT(strstr(summaries[rank].bytes, "3 buckets") != NULL);
  }
  mr_reducer_free(reducer);
}

static void gradients_become_sums(void) {
  for (int32_t size = 1; size <= 3; ++size) run_threads(size, take_steps);
  run_processes(NULL, kBothEnd, take_steps);
}

static void sum_callers_memory(mr_comm* comm) {
  float own[2][8];
  const int64_t shape[2] = {2, 4};
  const mr_gradient gradients[2] = {{"a", shape, 2, MR_FLOAT32, own[0]},
                                    {"b", shape, 2, MR_FLOAT32, own[1]}};
  mr_reducer* reducer = NULL;
  EXPECT_OK(mr_reducer_create(comm, gradients, 2, NULL, &reducer));
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_reducer_gradient(reducer, 1, &tensor));
  EXPECT(tensor.data == own[1]);
  EXPECT_EQ(tensor.rank, 2);
  EXPECT_EQ(tensor.shape[1], 4);
  EXPECT(strcmp(tensor.name, "b") == 0);
  for (int i = 0; i < 8; ++i) own[0][i] = own[1][i] = (float)(i + 1);
  EXPECT_OK(mr_reducer_mark_ready(reducer, 1));
  EXPECT_OK(mr_reducer_mark_ready(reducer, 0));
  EXPECT_OK(mr_reducer_finish(reducer));
  EXPECT_EQ(own[0][7], 16);
  EXPECT_EQ(own[1][0], 2);
  mr_reducer_free(reducer);
}

static void gradients_may_lie_in_memory_of_the_callers(void) {
  run_threads(2, sum_callers_memory);
  run_processes(NULL, kBothEnd, sum_callers_memory);
}

static void average_and_clip(mr_comm* comm) {
  mr_reducer_options options = {sizeof options};
  options.average_by_rows = options.skip_non_finite = 1;
  options.clip_norm = 1.5;
  mr_reducer* reducer = make_reducer(comm, 1, 4, &options);
  mr_step_outcome outcome = {sizeof outcome};
  EXPECT_ERROR(mr_reducer_mark_ready(reducer, 0), MR_FAILED_PRECONDITION, "rows");
  EXPECT_ERROR(mr_reducer_set_rows(reducer, -1), MR_INVALID_ARGUMENT, "-1 rows");
  EXPECT_OK(mr_reducer_set_rows(reducer, mr_comm_rank(comm) + 1));
  give(reducer, 0, mr_comm_rank(comm) == 0 ? 1.5F : 3);
  EXPECT_OK(mr_reducer_finish(reducer));
  EXPECT_OK(mr_reducer_outcome(reducer, &outcome));
  EXPECT_EQ(outcome.rows, 3);
  EXPECT(gradient_of(reducer, 0)[0] == 1.5F);
  EXPECT(outcome.norm == 3);
  EXPECT(outcome.clip_factor == 0.5);
  EXPECT_EQ(outcome.skip, 0);

  EXPECT_OK(mr_reducer_set_rows(reducer, 1));
  give(reducer, 0, mr_comm_rank(comm) == 0 ? INFINITY : 1);
  EXPECT_OK(mr_reducer_finish(reducer));
  EXPECT_OK(mr_reducer_outcome(reducer, &outcome));
  EXPECT_EQ(outcome.skip, 1);
  mr_reducer_free(reducer);
}

static void the_outcome_has_rows_norm_and_skip(void) { run_threads(2, average_and_clip); }

static void add_micro_batches(mr_comm* comm) {
  mr_reducer_options options = {sizeof options};
  options.micro_batches = 2;
  mr_reducer* reducer = make_reducer(comm, 1, 4, &options);
  mr_step_outcome outcome = {sizeof outcome};
  give(reducer, 0, 1);
  EXPECT_OK(mr_reducer_finish(reducer));
  EXPECT_OK(mr_reducer_outcome(reducer, &outcome));
  EXPECT_EQ(outcome.complete, 0);
  give(reducer, 0, 2);
  EXPECT_OK(mr_reducer_finish(reducer));
  EXPECT_OK(mr_reducer_outcome(reducer, &outcome));
  EXPECT_EQ(outcome.complete, 1);
  EXPECT_EQ(gradient_of(reducer, 0)[3], 6);
  mr_reducer_free(reducer);
}

static void micro_batches_are_added_up(void) { run_threads(2, add_micro_batches); }

static void update_own_shards(mr_comm* comm) {
  mr_reducer_options options = {sizeof options};
  options.shard = 1;
  mr_reducer* reducer = make_reducer(comm, 2, ELEMENTS, &options);
  for (size_t i = 0; i < 2; ++i) give(reducer, i, 1);
  EXPECT_OK(mr_reducer_finish(reducer));
  size_t count = 0;
  const mr_shard* shards = mr_reducer_shards(reducer, &count);
  int64_t elements = 0;
  for (size_t s = 0; s < count; ++s) {
    float* const numbers = gradient_of(reducer, shards[s].gradient);
    for (size_t i = shards[s].begin; i < shards[s].end; ++i) {
      EXPECT_EQ(numbers[i], 2);
      numbers[i] = (float)(100 + i);
    }
    elements += (int64_t)(shards[s].end - shards[s].begin);
  }
  EXPECT(elements < 2 * ELEMENTS);
  EXPECT_OK(mr_comm_allreduce(comm, &elements, MR_INT64, 1, MR_SUM));
  EXPECT_EQ(elements, 2 * ELEMENTS);
  EXPECT_OK(mr_reducer_gather_shards(reducer));
  for (size_t i = 0; i < ELEMENTS; ++i) EXPECT_EQ(gradient_of(reducer, 1)[i], 100 + (int)i);
  mr_reducer_free(reducer);
}

static void shards_are_each_one_ranks(void) { run_threads(2, update_own_shards); }

static void die_in_a_step(mr_comm* comm) {
  mr_reducer_options options = small_buckets();
  options.first_step = 40;
  mr_reducer* reducer = make_reducer(comm, 2, ELEMENTS, &options);
  for (size_t i = 0; i < 2; ++i) give(reducer, i, 1);
  EXPECT_OK(mr_reducer_finish(reducer));
  if (mr_comm_rank(comm) == 1) {
    await_other(comm);
    EXPECT_OK(mr_reducer_mark_ready(reducer, 1));
    _exit(DEAD);
  }
  tell_other(comm);
  mr_error* error = mr_reducer_mark_ready(reducer, 1);
  if (error == NULL) error = mr_reducer_mark_ready(reducer, 0);
  if (error == NULL) error = mr_reducer_finish(reducer);
  EXPECT_EQ(mr_error_code(error), MR_UNAVAILABLE);
  mr_peer peer = {sizeof peer};
  EXPECT_EQ(mr_error_peer(error, &peer), 1);
  EXPECT_EQ(peer.rank, 1);
  EXPECT_EQ(peer.step, 41);
  EXPECT_EQ(peer.bucket, 0);
  EXPECT(strcmp(peer.phase, "backward") == 0);
  mr_error_free(error);
  mr_reducer_free(reducer);
}

static void a_rank_that_dies_is_named_with_step_and_bucket(void) {
  run_processes(NULL, kOneDies, die_in_a_step);
}

static void leave_in_a_step(mr_comm* comm) {
  mr_reducer* reducer = make_reducer(comm, 1, 4, NULL);
  if (mr_comm_rank(comm) == 1) {
    EXPECT_ERROR(mr_reducer_leave(reducer, 99, NULL), MR_INVALID_ARGUMENT, "code is 99");
    EXPECT_OK(mr_reducer_leave(reducer, MR_RESOURCE_EXHAUSTED, "out of memory"));
    EXPECT_ERROR(mr_reducer_mark_ready(reducer, 0), MR_RESOURCE_EXHAUSTED, "out of memory");
  } else {
    mr_error* error = mr_reducer_mark_ready(reducer, 0);  // the other may have left already
    if (error == NULL) error = mr_reducer_finish(reducer);
    mr_peer peer = {sizeof peer};
    EXPECT_EQ(mr_error_peer(error, &peer), 1);
    EXPECT_EQ(peer.rank, 1);
    EXPECT_ERROR(error, MR_UNAVAILABLE, "out of memory");
  }
  mr_reducer_free(reducer);
}

static void a_rank_that_leaves_a_step_says_why(void) {
  run_threads(2, leave_in_a_step);
  run_processes(NULL, kBothEnd, leave_in_a_step);
}

static void differ(mr_comm* comm) {
  const int64_t shape = 4 + mr_comm_rank(comm);
  const mr_gradient gradient = {"weights", &shape, 1, MR_FLOAT32, NULL};
  mr_reducer* reducer = NULL;
  EXPECT_ERROR(mr_reducer_create(comm, &gradient, 1, NULL, &reducer), MR_INVALID_ARGUMENT,
               "weights");
  EXPECT(reducer == NULL);
}

static void plans_that_differ_are_told_on_every_rank(void) { run_threads(2, differ); }

static void a_reducer_keeps_its_group(void) {
  mr_comm* comm = NULL;
  EXPECT_OK(mr_comm_threads(1, 0, &comm));
  mr_reducer* reducer = make_reducer(comm, 1, 4, NULL);
  mr_comm_free(comm);
  give(reducer, 0, 3);
  EXPECT_OK(mr_reducer_finish(reducer));
  EXPECT_EQ(gradient_of(reducer, 0)[2], 3);
  mr_reducer_free(reducer);
}

static void wrong_gradients_are_named(void) {
  mr_comm* comm = NULL;
  mr_reducer* reducer = NULL;
  const int64_t shape[7] = {1, 1, 1, 1, 1, 1, 1}, below[1] = {-1};
  float memory[1];
  const struct {
    mr_gradient gradients[2];
    const char* part;
  } wrong[] = {{{{NULL, shape, 1, MR_FLOAT32, NULL}}, "gradient 0: it has no name"},
               {{{"a", NULL, 1, MR_FLOAT32, NULL}}, "gradient 0: it has no shape"},
               {{{"a", shape, 7, MR_FLOAT32, NULL}}, "gradient 0: it has 7 extents"},
               {{{"a", below, 1, MR_FLOAT32, NULL}}, "gradient 0: it has the extent -1"},
               {{{"a", shape, 1, 8, NULL}}, "gradient 0: there is no dtype 8"},
               {{{"a", shape, 1, MR_INT32, NULL}}, "int32"}};
  EXPECT_OK(mr_comm_threads(1, 0, &comm));
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    EXPECT_ERROR(mr_reducer_create(comm, wrong[i].gradients, 1, NULL, &reducer),
                 MR_INVALID_ARGUMENT, wrong[i].part);
  }
  const mr_gradient mixed[2] = {{"a", shape, 1, MR_FLOAT32, memory},
                                {"b", shape, 1, MR_FLOAT32, NULL}};
  EXPECT_ERROR(mr_reducer_create(comm, mixed, 2, NULL, &reducer), MR_INVALID_ARGUMENT,
               "gradient 1: memory");
  EXPECT(reducer == NULL);
  mr_comm_free(comm);
}

static void wrong_options_are_named(void) {
  mr_comm* comm = NULL;
  mr_reducer* reducer = NULL;
  EXPECT_OK(mr_comm_threads(1, 0, &comm));
  mr_reducer_options options = {0};
  EXPECT_ERROR(mr_reducer_create(comm, NULL, 0, &options, &reducer), MR_INVALID_ARGUMENT,
               "sizeof(mr_reducer_options)");
  options.struct_size = sizeof options;
  options.policy = 3;
  EXPECT_ERROR(mr_reducer_create(comm, NULL, 0, &options, &reducer), MR_INVALID_ARGUMENT, "policy");
  options.policy = MR_PROGRESS_INLINE;
  options.wire = MR_INT32;
  EXPECT_ERROR(mr_reducer_create(comm, NULL, 0, &options, &reducer), MR_INVALID_ARGUMENT, "wire");
  options.wire = MR_BFLOAT16;
  options.clip_norm = -1;
  EXPECT_ERROR(mr_reducer_create(comm, NULL, 0, &options, &reducer), MR_INVALID_ARGUMENT, "clip");
  options.clip_norm = 0;
  options.compute_threads = -1;
  EXPECT_OK(mr_reducer_create(comm, NULL, 0, &options, &reducer));
  EXPECT_OK(mr_reducer_finish(reducer));
  mr_reducer_free(reducer);
  mr_comm_free(comm);
}

static void wrong_calls_are_refused(void) {
  mr_comm* comm = NULL;
  size_t bucket = 0;
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_comm_threads(1, 0, &comm));
  mr_reducer* reducer = make_reducer(comm, 2, 4, NULL);
  EXPECT_ERROR(mr_reducer_gradient(reducer, 2, &tensor), MR_OUT_OF_RANGE, "no gradient 2");
  EXPECT_ERROR(mr_reducer_mark_ready(reducer, 2), MR_OUT_OF_RANGE, "no gradient 2");
  EXPECT_ERROR(mr_reducer_bucket_of(reducer, 2, &bucket), MR_OUT_OF_RANGE, "no gradient 2");
  give(reducer, 0, 1);
  EXPECT_ERROR(mr_reducer_mark_ready(reducer, 0), MR_FAILED_PRECONDITION, "'a' was marked twice");
  EXPECT_ERROR(mr_reducer_finish(reducer), MR_FAILED_PRECONDITION, "'b' was not marked");
  give(reducer, 1, 1);
  EXPECT_OK(mr_reducer_finish(reducer));
  mr_reducer_free(reducer);
  mr_comm_free(comm);
}

#define EXPECT_NULL(call, name) EXPECT_ERROR(call, MR_INVALID_ARGUMENT, name " is NULL")

static void null_is_named(void) {
  mr_comm* comm = NULL;
  size_t count = 7;
  mr_tensor tensor = {sizeof tensor};
  mr_step_outcome outcome = {sizeof outcome};
  mr_reducer_counters counters = {sizeof counters};
  EXPECT_OK(mr_comm_threads(1, 0, &comm));
  mr_reducer* reducer = make_reducer(comm, 1, 4, NULL);
  EXPECT_NULL(mr_reducer_create(NULL, NULL, 0, NULL, &reducer), "mr_reducer_create: comm");
  EXPECT_NULL(mr_reducer_create(comm, NULL, 1, NULL, &reducer), "gradients");
  EXPECT_NULL(mr_reducer_create(comm, NULL, 0, NULL, NULL), "reducer");
  EXPECT_NULL(mr_reducer_gradient(NULL, 0, &tensor), "mr_reducer_gradient: reducer");
  EXPECT_NULL(mr_reducer_gradient(reducer, 0, NULL), "tensor");
  EXPECT_NULL(mr_reducer_set_rows(NULL, 0), "mr_reducer_set_rows: reducer");
  EXPECT_NULL(mr_reducer_mark_ready(NULL, 0), "mr_reducer_mark_ready: reducer");
  EXPECT_NULL(mr_reducer_finish(NULL), "mr_reducer_finish: reducer");
  EXPECT_NULL(mr_reducer_outcome(NULL, &outcome), "mr_reducer_outcome: reducer");
  EXPECT_NULL(mr_reducer_outcome(reducer, NULL), "outcome");
  EXPECT_NULL(mr_reducer_gather_shards(NULL), "mr_reducer_gather_shards: reducer");
  EXPECT_NULL(mr_reducer_get_counters(NULL, &counters), "mr_reducer_get_counters: reducer");
  EXPECT_NULL(mr_reducer_get_counters(reducer, NULL), "counters");
  EXPECT_NULL(mr_reducer_bucket_of(NULL, 0, &count), "mr_reducer_bucket_of: reducer");
  EXPECT_NULL(mr_reducer_bucket_of(reducer, 0, NULL), "bucket");
  EXPECT_NULL(mr_reducer_summary(NULL, take_text, NULL), "mr_reducer_summary: reducer");
  EXPECT_NULL(mr_reducer_summary(reducer, NULL, NULL), "sink");
  EXPECT_NULL(mr_reducer_leave(NULL, MR_INTERNAL, NULL), "mr_reducer_leave: reducer");
  EXPECT(mr_reducer_shards(NULL, &count) == NULL);
  EXPECT_EQ(count, 0);
  mr_reducer_free(NULL);
  mr_reducer_free(reducer);
  mr_comm_free(comm);
}

static const test_case cases[] = {
    {"ARankThatDiesIsNamedWithStepAndBucket", a_rank_that_dies_is_named_with_step_and_bucket},
    {"ARankThatLeavesAStepSaysWhy", a_rank_that_leaves_a_step_says_why},
    {"GradientsMayLieInMemoryOfTheCallers", gradients_may_lie_in_memory_of_the_callers},
    {"GradientsBecomeSums", gradients_become_sums},
    {"TheOutcomeHasRowsNormAndSkip", the_outcome_has_rows_norm_and_skip},
    {"MicroBatchesAreAddedUp", micro_batches_are_added_up},
    {"ShardsAreEachOneRanks", shards_are_each_one_ranks},
    {"PlansThatDifferAreToldOnEveryRank", plans_that_differ_are_told_on_every_rank},
    {"AReducerKeepsItsGroup", a_reducer_keeps_its_group},
    {"WrongGradientsAreNamed", wrong_gradients_are_named},
    {"WrongOptionsAreNamed", wrong_options_are_named},
    {"WrongCallsAreRefused", wrong_calls_are_refused},
    {"NullIsNamed", null_is_named},
    {NULL, NULL}};

int main(void) { return run_cases("CReducer", cases); }
