// Diagnoses of loaders: whose they are, where their time begins, and how they name settings. The
// model behind them is that of tests/pipeline/diagnosis.
#include <millrace_diagnosis.h>

#include "expect.h"
#include "streams.h"

// What a call showed.
typedef struct seen {
  char verdict[64];
  char sentence[1024];
  char json[1 << 15];
  double wait_fraction;
  int calls;
} seen;

static void copy(char* to, size_t room, const char* text) {
  EXPECT(strlen(text) < room);
  snprintf(to, room, "%s", text);
}

static void take_diagnosis(void* user, const mr_diagnosis* diagnosis) {
  seen* const of = user;
  EXPECT_EQ(diagnosis->struct_size, sizeof *diagnosis);
  copy(of->verdict, sizeof of->verdict, diagnosis->verdict);
  copy(of->sentence, sizeof of->sentence, diagnosis->sentence);
  copy(of->json, sizeof of->json, diagnosis->json);
  of->wait_fraction = diagnosis->wait_fraction;
  ++of->calls;
}

// The texts live until the next call.
static const seen* diagnose_with(const mr_loader* loader, const mr_diagnosis_options* options) {
  static seen diagnosis;
  memset(&diagnosis, 0, sizeof diagnosis);
  EXPECT_OK(mr_loader_diagnose(loader, options, take_diagnosis, &diagnosis));
  EXPECT_EQ(diagnosis.calls, 1);
  return &diagnosis;
}
static const seen* diagnose(const mr_loader* loader) { return diagnose_with(loader, NULL); }

static int has(const seen* diagnosis, const char* part) {
  return strstr(diagnosis->json, part) != NULL;
}

static void take_batches(mr_loader* loader, int count) {
  for (int i = 0; i < count; ++i) mr_batch_release(next_batch(loader));
}

static void the_texts_agree(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  take_batches(loader, 3);
  const seen* diagnosis = diagnose(loader);
  EXPECT(strstr(diagnosis->verdict, " input-bound") != NULL);
  EXPECT(strncmp(diagnosis->sentence, diagnosis->verdict, strlen(diagnosis->verdict)) == 0);
  EXPECT(diagnosis->wait_fraction >= 0 && diagnosis->wait_fraction <= 1);
  EXPECT(has(diagnosis, "\"samples\":20.0,"));
  EXPECT(has(diagnosis, diagnosis->verdict) && has(diagnosis, diagnosis->sentence));
  mr_loader_free(loader);
}

static void its_time_begins_where_the_loader_is_opened_moved_or_measured_anew(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  EXPECT(has(diagnose(loader), "\"samples\":0.0,"));
  EXPECT(strstr(diagnose(loader)->sentence, "the consumer asked for no batch") != NULL);
  static text token;
  token.size = 0;
  take_batches(loader, 1);
  EXPECT_OK(mr_loader_save(loader, take_text, &token));
  take_batches(loader, 1);
  EXPECT(has(diagnose(loader), "\"samples\":16.0,"));

  EXPECT_OK(mr_loader_restore(loader, token.bytes, token.size));
  EXPECT(has(diagnose(loader), "\"samples\":0.0,"));
  take_batches(loader, 2);
  EXPECT(has(diagnose(loader), "\"samples\":12.0,"));
  EXPECT_OK(mr_loader_seek(loader, 2));
  take_batches(loader, 1);
  EXPECT(has(diagnose(loader), "\"samples\":4.0,"));

  EXPECT_OK(mr_loader_measure_anew(loader));
  EXPECT(has(diagnose(loader), "\"samples\":0.0,"));
  mr_loader_free(loader);
}

static void a_move_that_is_refused_begins_nothing(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  take_batches(loader, 1);
  EXPECT_ERROR(mr_loader_restore(loader, "x", 1), MR_INVALID_ARGUMENT, "token");
  EXPECT_ERROR(mr_loader_seek(loader, 4), MR_INVALID_ARGUMENT, "batch 4");
  EXPECT(has(diagnose(loader), "\"samples\":8.0,"));
  mr_loader_free(loader);
}

static void each_loader_of_a_context_has_its_own(void) {
  mr_context* context = NULL;
  EXPECT_OK(mr_context_create(NULL, &context));
  mr_loader* one = open_stream(NUMBERS, context, NULL);
  mr_loader* other = open_stream(NUMBERS, context, NULL);
  mr_context_free(context);
  take_batches(one, 1);
  take_batches(other, 3);
  EXPECT(has(diagnose(one), "\"samples\":8.0,"));
  mr_loader_free(one);
  EXPECT(has(diagnose(other), "\"samples\":20.0,"));
  mr_loader_free(other);
}

static void settings_have_the_names_of_the_program(void) {
  mr_context_options of_context = {sizeof of_context};
  of_context.memory_budget_bytes = 64 << 20;
  mr_context* context = NULL;
  EXPECT_OK(mr_context_create(&of_context, &context));
  mr_open_options of_loader = {sizeof of_loader};
  of_loader.prefetch_batches = 3;
  mr_loader* loader = open_stream(NUMBERS, context, &of_loader);
  mr_context_free(context);
  take_batches(loader, 1);
  const seen* diagnosis = diagnose(loader);
  EXPECT(has(diagnosis, "\"setting\":\"prefetch_batches = 6\""));
  EXPECT(has(diagnosis, "\"setting\":\"memory_budget_bytes = 128 << 20\""));
  mr_diagnosis_options names = {sizeof names};
  names.prefetch = "ring $0, $1";  // the value alone is put in
  names.memory_budget = "";
  diagnosis = diagnose_with(loader, &names);
  EXPECT(has(diagnosis, "\"setting\":\"ring 6, $1\""));
  EXPECT(!has(diagnosis, "memory_budget_bytes"));
  mr_loader_free(loader);
}

// Opens a loader with so many workers, diagnoses it, and expects the setting of two of them; 0: not
// given. A host with one core for the program has none.
static void expect_setting(int32_t cpu_budget, int32_t context_threads, const char* plan,
                           const char* setting) {
  mr_context_options of_context = {sizeof of_context};
  of_context.threads = context_threads;
  mr_context* context = NULL;
  if (context_threads != 0) EXPECT_OK(mr_context_create(&of_context, &context));
  mr_open_options of_loader = {sizeof of_loader};
  of_loader.cpu_budget = cpu_budget;
  mr_loader* loader = open_stream(plan, context, &of_loader);
  mr_context_free(context);
  take_batches(loader, 1);
  const seen* diagnosis = diagnose(loader);
  if (has(diagnosis, "\"+1 thread\"")) EXPECT(has(diagnosis, setting));
  mr_loader_free(loader);
}

static void the_setting_that_limits_threads_is_named(void) {
  expect_setting(0, 1, NUMBERS, "\"setting\":\"threads = 2\"");
  expect_setting(1, 0, NUMBERS, "\"setting\":\"cpu_budget = 2\"");
  expect_setting(1, 2, NUMBERS, "\"setting\":\"cpu_budget = 2\"");
  expect_setting(1, 1, NUMBERS, "\"setting\":\"cpu_budget = 2 and threads = 2\"");
  expect_setting(2, 1, NUMBERS, "\"setting\":\"threads = 2\"");
  expect_setting(0, 0, NUMBERS " performance { threads: 1 }",
                 "\"setting\":\"performance { threads: 2 }\"");
}

static void wrong_arguments_are_named(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  seen* const nothing = NULL;
  mr_diagnosis_options wrong = {0};
  EXPECT_ERROR(mr_loader_diagnose(NULL, NULL, take_diagnosis, nothing), MR_INVALID_ARGUMENT,
               "mr_loader_diagnose: loader is NULL");
  EXPECT_ERROR(mr_loader_diagnose(loader, NULL, NULL, nothing), MR_INVALID_ARGUMENT,
               "mr_loader_diagnose: visit is NULL");
  EXPECT_ERROR(mr_loader_diagnose(loader, &wrong, take_diagnosis, nothing), MR_INVALID_ARGUMENT,
               "set it to sizeof(mr_diagnosis_options)");
  EXPECT_ERROR(mr_loader_measure_anew(NULL), MR_INVALID_ARGUMENT,
               "mr_loader_measure_anew: loader is NULL");
  EXPECT_ERROR(mr_feed_diagnose(NULL, NULL, take_diagnosis, nothing), MR_INVALID_ARGUMENT,
               "mr_feed_diagnose: feed is NULL");
  EXPECT_ERROR(mr_feed_measure_anew(NULL), MR_INVALID_ARGUMENT,
               "mr_feed_measure_anew: feed is NULL");
  mr_loader_free(loader);
}

static const test_case cases[] = {
    {"TheTextsAgree", the_texts_agree},
    {"ItsTimeBeginsWhereTheLoaderIsOpenedMovedOrMeasuredAnew",
     its_time_begins_where_the_loader_is_opened_moved_or_measured_anew},
    {"AMoveThatIsRefusedBeginsNothing", a_move_that_is_refused_begins_nothing},
    {"EachLoaderOfAContextHasItsOwn", each_loader_of_a_context_has_its_own},
    {"SettingsHaveTheNamesOfTheProgram", settings_have_the_names_of_the_program},
    {"TheSettingThatLimitsThreadsIsNamed", the_setting_that_limits_threads_is_named},
    {"WrongArgumentsAreNamed", wrong_arguments_are_named},
    {NULL, NULL}};

int main(void) { return run_cases("CDiagnosis", cases); }
