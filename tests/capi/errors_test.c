// Every way in which a call of the C interface fails, and what its error tells.
#include <millrace_diagnosis.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "streams.h"

static void count(void* user, const mr_stage* stage) {
  EXPECT(stage->name != NULL && stage->op != NULL && stage->options != NULL);
  ++*(int*)user;
}

static void see(void* user, const mr_record* record) { EXPECT(user != NULL || record == NULL); }

static void no_error_is_ok(void) {
  EXPECT_EQ(mr_error_code(NULL), MR_OK);
  EXPECT_EQ(strlen(mr_error_message(NULL)), 0);
  EXPECT_EQ(mr_error_retryable(NULL), 0);
  EXPECT_EQ(mr_error_record(NULL, NULL), 0);
  EXPECT_EQ(mr_error_peer(NULL, NULL), 0);
}

static void freeing_nothing_does_nothing(void) {
  mr_error_free(NULL);
  mr_context_free(NULL);
  mr_plan_free(NULL);
  mr_loader_free(NULL);
  mr_loader_cancel(NULL);
  mr_batch_release(NULL);
  mr_memory_free(NULL);
  mr_push_free(NULL);
  EXPECT(mr_batch_retain(NULL) == NULL);
}

static void results_of_nothing_are_nothing(void) {
  size_t size = 7;
  EXPECT(mr_batch_valid(NULL) == NULL);
  EXPECT(mr_batch_ids(NULL) == NULL);
  EXPECT(mr_batch_token(NULL, &size) == NULL);
  EXPECT_EQ(size, 0);
  EXPECT_EQ(mr_plan_fingerprint(NULL), 0);
}

#define EXPECT_NULL(call, name) EXPECT_ERROR(call, MR_INVALID_ARGUMENT, name " is NULL")

static void null_is_named(void) {
  mr_plan* plan = make_plan(NUMBERS);
  mr_loader* loader = NULL;
  EXPECT_OK(mr_loader_open(plan, NULL, NULL, &loader));
  mr_batch* batch = next_batch(loader);
  mr_batch* none = NULL;
  mr_context* context = NULL;
  EXPECT_OK(mr_context_create(NULL, &context));
  int32_t outcome = 0;
  int64_t row = 0;
  mr_info info = {sizeof info};
  mr_tensor tensor = {sizeof tensor};
  mr_length length = {sizeof length};
  const char* names[] = {NULL};
  mr_plan* other = NULL;
  struct DLManagedTensorVersioned* shared = NULL;

  EXPECT_NULL(mr_context_create(NULL, NULL), "mr_context_create: context");
  EXPECT_NULL(mr_context_metrics(NULL, take_text, NULL), "mr_context_metrics: context");
  EXPECT_NULL(mr_context_metrics(context, NULL, NULL), "sink");
  EXPECT_NULL(mr_plan_from_file(NULL, NULL, NULL, 0, &other), "mr_plan_from_file: path");
  EXPECT_NULL(mr_plan_from_file("plan", NULL, NULL, 0, NULL), "plan");
  EXPECT_NULL(mr_plan_from_file("plan", NULL, NULL, 1, &other), "names");
  EXPECT_NULL(mr_plan_from_file("plan", names, NULL, 1, &other), "values");
  EXPECT_NULL(mr_plan_from_file("plan", names, names, 1, &other), "a name of names");
  EXPECT_NULL(mr_plan_from_text(NULL, 0, "plan", NULL, NULL, 0, &other), "text");
  EXPECT_NULL(mr_plan_from_text("", 0, NULL, NULL, NULL, 0, &other), "origin");
  EXPECT_NULL(mr_plan_from_text("", 0, "plan", NULL, NULL, 0, NULL), "mr_plan_from_text: plan");
  EXPECT_NULL(mr_plan_text(NULL, take_text, NULL), "mr_plan_text: plan");
  EXPECT_NULL(mr_plan_text(plan, NULL, NULL), "sink");
  EXPECT_NULL(mr_plan_stages(NULL, count, NULL), "mr_plan_stages: plan");
  EXPECT_NULL(mr_plan_stages(plan, NULL, NULL), "visit");
  EXPECT_NULL(mr_explain(NULL, NULL, NULL, take_text, NULL), "mr_explain: plan");
  EXPECT_NULL(mr_explain(plan, NULL, NULL, NULL, NULL), "sink");
  EXPECT_NULL(mr_detect_launcher(NULL, NULL, NULL), "launcher");
  EXPECT_NULL(mr_loader_open(NULL, NULL, NULL, &loader), "mr_loader_open: plan");
  EXPECT_NULL(mr_loader_open(plan, NULL, NULL, NULL), "loader");
  outcome = MR_BATCH;
  EXPECT_NULL(mr_loader_next(NULL, -1, &none, &outcome), "mr_loader_next: loader");
  EXPECT_EQ(outcome, MR_FAILED);
  EXPECT_NULL(mr_loader_next(loader, -1, NULL, &outcome), "batch");
  EXPECT_NULL(mr_loader_next(loader, -1, &none, NULL), "outcome");
  EXPECT_NULL(mr_loader_try_next(NULL, &none, &outcome), "mr_loader_try_next: loader");
  EXPECT_NULL(mr_loader_save(NULL, take_text, NULL), "mr_loader_save: loader");
  EXPECT_NULL(mr_loader_save(loader, NULL, NULL), "sink");
  EXPECT_NULL(mr_loader_restore(NULL, "", 0), "mr_loader_restore: loader");
  EXPECT_NULL(mr_loader_restore(loader, NULL, 0), "token");
  EXPECT_NULL(mr_loader_seek(NULL, 0), "mr_loader_seek: loader");
  EXPECT_NULL(mr_loader_length(NULL, &length), "mr_loader_length: loader");
  EXPECT_NULL(mr_loader_length(loader, NULL), "length");
  EXPECT_NULL(mr_loader_schema(NULL, NULL, NULL), "mr_loader_schema: loader");
  EXPECT_NULL(mr_loader_schema(loader, NULL, NULL), "visit");
  EXPECT_NULL(mr_batch_info(NULL, &info), "mr_batch_info: batch");
  EXPECT_NULL(mr_batch_info(batch, NULL), "info");
  EXPECT_NULL(mr_batch_tensor(NULL, 0, &tensor), "mr_batch_tensor: batch");
  EXPECT_NULL(mr_batch_tensor(batch, 0, NULL), "tensor");
  EXPECT_NULL(mr_batch_row_shape(NULL, 0, 0, &row, &outcome), "mr_batch_row_shape: batch");
  EXPECT_NULL(mr_batch_row_shape(batch, 0, 0, NULL, &outcome), "shape");
  EXPECT_NULL(mr_batch_row_shape(batch, 0, 0, &row, NULL), "rank");
  EXPECT_NULL(mr_batch_damaged(NULL, 0, NULL, NULL, NULL), "mr_batch_damaged: batch");
  EXPECT_NULL(mr_loader_locate(NULL, mr_batch_ids(batch), see, NULL), "mr_loader_locate: loader");
  EXPECT_NULL(mr_loader_locate(loader, NULL, see, NULL), "id");
  EXPECT_NULL(mr_loader_locate(loader, mr_batch_ids(batch), NULL, NULL), "visit");
  EXPECT_NULL(mr_batch_arrow(NULL, NULL, NULL), "mr_batch_arrow: batch");
  EXPECT_NULL(mr_batch_arrow(batch, NULL, NULL), "array");
  EXPECT_NULL(mr_batch_dlpack(NULL, 0, &shared), "mr_batch_dlpack: batch");
  EXPECT_NULL(mr_batch_dlpack(batch, 0, NULL), "tensor");
  EXPECT(other == NULL && none == NULL && shared == NULL);

  mr_batch_release(batch);
  batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 8);  // no failed call took a batch
  mr_batch_release(batch);
  mr_loader_free(loader);
  mr_context_free(context);
  mr_plan_free(plan);
}

static void a_wrong_plan_is_told_with_its_place(void) {
  mr_plan* plan = NULL;
  EXPECT_ERROR(mr_plan_from_file("/nowhere/plan.pbtxt", NULL, NULL, 0, &plan), MR_NOT_FOUND,
               "/nowhere/plan.pbtxt");
  const char* wrong = "stage { range { count: 20 } }\nstage { butch { size: 8 } }";
  EXPECT_ERROR(mr_plan_from_text(wrong, strlen(wrong), "my.pbtxt", NULL, NULL, 0, &plan),
               MR_INVALID_ARGUMENT, "my.pbtxt:2:");
  const char* unset = "stage { range { count: ${COUNT} } } stage { batch { size: 8 } }";
  EXPECT_ERROR(mr_plan_from_text(unset, strlen(unset), "my.pbtxt", NULL, NULL, 0, &plan),
               MR_INVALID_ARGUMENT, "COUNT");
  EXPECT(plan == NULL);
  const char* names[] = {"COUNT", "COUNT"};
  const char* values[] = {"20", "21"};
  EXPECT_ERROR(mr_plan_from_text(unset, strlen(unset), "my.pbtxt", names, values, 2, &plan),
               MR_INVALID_ARGUMENT, "COUNT is given twice");
  EXPECT_OK(mr_plan_from_text(unset, strlen(unset), "my.pbtxt", names, values, 1, &plan));
  mr_plan* same = make_plan(NUMBERS);
  EXPECT(mr_plan_fingerprint(plan) != 0);
  EXPECT_EQ(mr_plan_fingerprint(plan), mr_plan_fingerprint(same));
  static text written;
  EXPECT_OK(mr_plan_text(plan, take_text, &written));
  EXPECT(strstr(written.bytes, "count: 20") != NULL);
  mr_plan* again = make_plan(written.bytes);
  EXPECT_EQ(mr_plan_fingerprint(again), mr_plan_fingerprint(plan));
  int stages = 0;
  EXPECT_OK(mr_plan_stages(plan, count, &stages));
  EXPECT_EQ(stages, 2);
  static text explained;
  EXPECT_OK(mr_explain(plan, NULL, NULL, take_text, &explained));
  EXPECT(strstr(explained.bytes, "batch") != NULL);
  mr_plan_free(again);
  mr_plan_free(same);
  mr_plan_free(plan);
}

static void wrong_options_are_invalid(void) {
  mr_plan* plan = make_plan(NUMBERS);
  mr_loader* loader = NULL;
  mr_context* context = NULL;
  mr_open_options options = {sizeof options};
  options.rank = 2;
  options.world = 2;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT, "rank");
  options.rank = 0;
  options.token_bytes = 1;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT, "token is NULL");
  options.token = "?";
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT, "token");
  mr_context_options wrong = {sizeof wrong};
  wrong.threads = -1;
  EXPECT_ERROR(mr_context_create(&wrong, &context), MR_INVALID_ARGUMENT, "threads");
  wrong.threads = 0;
  wrong.memory_budget_bytes = -1;
  EXPECT_ERROR(mr_context_create(&wrong, &context), MR_INVALID_ARGUMENT, "memory_budget_bytes");
  EXPECT(loader == NULL && context == NULL);
  mr_plan_free(plan);
}

static void places_that_are_not_there_leave_the_stream_alone(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_batch_release(next_batch(loader));
  EXPECT_ERROR(mr_loader_seek(loader, 1000), MR_INVALID_ARGUMENT, "batch 1000");
  EXPECT_ERROR(mr_loader_restore(loader, "rubbish", 7), MR_INVALID_ARGUMENT, NULL);
  mr_loader* other = open_stream(LARGE, NULL, NULL);
  static text token;
  EXPECT_OK(mr_loader_save(other, take_text, &token));
  mr_loader_free(other);
  EXPECT_ERROR(mr_loader_restore(loader, token.bytes, token.size), MR_FAILED_PRECONDITION, "plan");
  mr_batch* batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 8);
  mr_batch_release(batch);
  mr_loader_free(loader);
}

// A file that is no TFRecord file.
static void damage_names_its_record(void) {
  char bytes[64];
  memset(bytes, 0x5a, sizeof bytes);
  const path file = make_file(bytes, sizeof bytes);
  mr_plan* plan = make_plan_of(
      "stage { tfrecord { files: \"${FILE}\" compression: \"none\" } } "
      "stage { decode_raw { output: \"a\" dtype: UINT8 shape: [1] } } stage { batch { size: 1 } }",
      &file);
  mr_open_options options = {sizeof options};
  options.index_folder = "/tmp";
  mr_loader* loader = NULL;
  mr_error* error = mr_loader_open(plan, NULL, &options, &loader);
  EXPECT_EQ(mr_error_code(error), MR_DATA_LOSS);
  EXPECT_EQ(mr_error_retryable(error), 0);
  mr_record record = {sizeof record};
  EXPECT_EQ(mr_error_record(error, &record), 1);
  EXPECT(record.file != NULL && strcmp(record.file, file.name) == 0);
  EXPECT_EQ(record.offset, 0);
  EXPECT_EQ(record.reason, MR_RECORD_LENGTH_CRC);
  mr_record unsized_record;
  memset(&unsized_record, 0, sizeof unsized_record);
  EXPECT_EQ(mr_error_record(error, &unsized_record), 0);
  mr_error_free(error);
  mr_plan_free(plan);
  unlink(file.name);
}

typedef struct log_of_test {
  int messages;
  int destroyed;
  int32_t level;
} log_of_test;

static void keep_message(void* user, int32_t level, const char* message, size_t size) {
  log_of_test* kept = user;
  if (size >= 8 && memcmp(message, "resuming", 8) == 0) {
    ++kept->messages;
    kept->level = level;
  }
}

static void destroy_log(void* user) { ++((log_of_test*)user)->destroyed; }

static void a_log_is_called_and_destroyed_once(void) {
  log_of_test kept = {0, 0, -1};
  mr_context_options options = {sizeof options};
  options.log = keep_message;
  options.log_user = &kept;
  options.log_destroy = destroy_log;
  mr_context* context = NULL;
  options.threads = -1;
  EXPECT_ERROR(mr_context_create(&options, &context), MR_INVALID_ARGUMENT, "threads");
  EXPECT_EQ(kept.destroyed, 1);
  options.threads = 1;
  EXPECT_OK(mr_context_create(&options, &context));
  mr_loader* other = open_stream(LARGE, NULL, NULL);
  static text token;
  EXPECT_OK(mr_loader_save(other, take_text, &token));
  mr_loader_free(other);
  mr_open_options forced = {sizeof forced};
  forced.token = token.bytes;
  forced.token_bytes = token.size;
  forced.force_resume = 1;
  mr_loader* loader = open_stream(NUMBERS, context, &forced);
  static text metrics;
  EXPECT_OK(mr_context_metrics(context, take_text, &metrics));
  EXPECT(strstr(metrics.bytes, "millrace_memory_reserved_bytes ") != NULL);
  mr_context_free(context);
  EXPECT_EQ(kept.messages, 1);
  EXPECT_EQ(kept.level, MR_LOG_WARNING);
  EXPECT_EQ(kept.destroyed, 1);
  mr_loader_free(loader);
  EXPECT_EQ(kept.destroyed, 2);
}

static void never_called(void* user, const mr_diagnosis* diagnosis) {
  (void)user;
  EXPECT(diagnosis == NULL);
}

static void a_forked_child_is_refused(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_batch_release(next_batch(loader));
  const pid_t child = fork();
  if (child == 0) {
    mr_batch* batch = NULL;
    int32_t outcome = MR_BATCH;
    const int before = failures;
    EXPECT_ERROR(mr_loader_next(loader, -1, &batch, &outcome), MR_FAILED_PRECONDITION, "fork");
    EXPECT_ERROR(mr_loader_next(loader, 1, &batch, &outcome), MR_FAILED_PRECONDITION, "fork");
    EXPECT_ERROR(mr_loader_try_next(loader, &batch, &outcome), MR_FAILED_PRECONDITION, "fork");
    EXPECT_ERROR(mr_loader_seek(loader, 0), MR_FAILED_PRECONDITION, "fork");
    EXPECT_ERROR(mr_loader_measure_anew(loader), MR_FAILED_PRECONDITION, "fork");
    EXPECT_ERROR(mr_loader_diagnose(loader, NULL, never_called, NULL), MR_FAILED_PRECONDITION,
                 "fork");
    mr_loader_free(loader);  // waits for nobody
    _exit(failures == before ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  mr_batch* batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 8);
  mr_batch_release(batch);
  mr_loader_free(loader);
}

static void the_launcher_is_that_of_the_environment(void) {
  mr_launcher launcher = {sizeof launcher};
  static text source;
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "4", 1);
  setenv("LOCAL_RANK", "1", 1);
  EXPECT_OK(mr_detect_launcher(&launcher, take_text, &source));
  EXPECT_EQ(launcher.found, 1);
  EXPECT_EQ(launcher.rank, 1);
  EXPECT_EQ(launcher.world, 4);
  EXPECT(source.size > 0);
  setenv("WORLD_SIZE", "four", 1);
  EXPECT_ERROR(mr_detect_launcher(&launcher, NULL, NULL), MR_FAILED_PRECONDITION, "WORLD_SIZE");
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
  unsetenv("LOCAL_RANK");
}

static const test_case cases[] = {
    {"NoErrorIsOk", no_error_is_ok},
    {"FreeingNothingDoesNothing", freeing_nothing_does_nothing},
    {"ResultsOfNothingAreNothing", results_of_nothing_are_nothing},
    {"NullIsNamed", null_is_named},
    {"AWrongPlanIsToldWithItsPlace", a_wrong_plan_is_told_with_its_place},
    {"WrongOptionsAreInvalid", wrong_options_are_invalid},
    {"PlacesThatAreNotThereLeaveTheStreamAlone", places_that_are_not_there_leave_the_stream_alone},
    {"DamageNamesItsRecord", damage_names_its_record},
    {"ALogIsCalledAndDestroyedOnce", a_log_is_called_and_destroyed_once},
    {"AForkedChildIsRefused", a_forked_child_is_refused},
    {"TheLauncherIsThatOfTheEnvironment", the_launcher_is_that_of_the_environment},
    {NULL, NULL}};

int main(void) { return run_cases("CErrors", cases); }
