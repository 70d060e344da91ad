// Calls that another thread ends while they open files.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"
#include "streams.h"

#define LINES                                                    \
  "stage { text { files: \"${FILE}\" } } "                       \
  "stage { parse_csv { feature { key: \"x\" dtype: INT64 } } } " \
  "stage { batch { size: 8 } }"

// A thread that waits until files are walked, and ends the call that walks them.
typedef struct ending {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int walks;  // true once files are walked
  int ended;  // true once mr_cancel_set was called
  mr_cancel* cancel;
} ending;

static void* end_call(void* user) {
  ending* e = user;
  pthread_mutex_lock(&e->mutex);
  while (!e->walks) pthread_cond_wait(&e->changed, &e->mutex);
  mr_cancel_set(e->cancel);
  e->ended = 1;
  pthread_cond_broadcast(&e->changed);
  pthread_mutex_unlock(&e->mutex);
  return NULL;
}

static void begin_ending(ending* e) {
  memset(e, 0, sizeof *e);
  pthread_mutex_init(&e->mutex, NULL);
  pthread_cond_init(&e->changed, NULL);
  EXPECT_OK(mr_cancel_create(&e->cancel));
  EXPECT_EQ(pthread_create(&e->thread, NULL, end_call, e), 0);
}

static void end_ending(ending* e) {
  pthread_join(e->thread, NULL);
  mr_cancel_free(e->cancel);
}

// The progress of walking: goes on when the other thread has ended the call.
static void await_end(void* user, int64_t done, int64_t total) {
  ending* e = user;
  EXPECT(done <= total);
  pthread_mutex_lock(&e->mutex);
  e->walks = 1;
  pthread_cond_broadcast(&e->changed);
  while (!e->ended) pthread_cond_wait(&e->changed, &e->mutex);
  pthread_mutex_unlock(&e->mutex);
}

static path make_lines(void) {
  enum { kBytes = 4 << 20 };
  char* bytes = malloc(kBytes);
  for (int i = 0; i < kBytes; ++i) bytes[i] = i % 1000 == 999 ? '\n' : 'x';
  const path file = make_file(bytes, kBytes);
  free(bytes);
  return file;
}

// A folder for indexes that holds none.
static path make_folder(void) {
  path folder = {"/tmp/millrace_capi_XXXXXX"};
  EXPECT(mkdtemp(folder.name) != NULL);
  return folder;
}

static void remove_folder(const path* folder) {
  char command[100];
  snprintf(command, sizeof command, "rm -rf '%s'", folder->name);
  EXPECT_EQ(system(command), 0);
}

static mr_open_options options_of(ending* e, const path* folder) {
  mr_open_options options = {sizeof options};
  options.index_folder = folder->name;
  options.index_progress = await_end;
  options.index_user = e;
  options.cancel = e->cancel;
  return options;
}

static void opening_ends(void) {
  const path file = make_lines();
  const path folder = make_folder();
  mr_plan* plan = make_plan_of(LINES, &file);
  ending e;
  begin_ending(&e);
  mr_open_options options = options_of(&e, &folder);
  mr_loader* loader = NULL;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_CANCELLED, "cancelled");
  EXPECT(loader == NULL);
  end_ending(&e);
  options.cancel = NULL;
  options.index_progress = NULL;
  EXPECT_OK(mr_loader_open(plan, NULL, &options, &loader));
  mr_loader_free(loader);
  mr_plan_free(plan);
  unlink(file.name);
  remove_folder(&folder);
}

static void explaining_ends(void) {
  const path file = make_lines();
  const path folder = make_folder();
  mr_plan* plan = make_plan_of(LINES, &file);
  ending e;
  begin_ending(&e);
  const mr_open_options options = options_of(&e, &folder);
  static text taken;
  EXPECT_ERROR(mr_explain(plan, NULL, &options, take_text, &taken), MR_CANCELLED, "cancelled");
  EXPECT_EQ(taken.pieces, 0);
  end_ending(&e);
  mr_plan_free(plan);
  unlink(file.name);
  remove_folder(&folder);
}

static void conversion_ends(void) {
  const path file = make_lines();
  const path folder = make_folder();
  ending e;
  begin_ending(&e);
  char prefix[100];
  snprintf(prefix, sizeof prefix, "%s/out", folder.name);
  const char* files[] = {file.name};
  mr_convert_options options = {sizeof options};
  options.from = "text";
  options.feature = "line";
  options.files = files;
  options.num_files = 1;
  options.prefix = prefix;
  options.index_folder = folder.name;
  options.user = &e;
  options.index_progress = await_end;
  options.cancel = e.cancel;
  EXPECT_ERROR(mr_convert(&options, NULL), MR_CANCELLED, "cancelled");
  end_ending(&e);
  options.index_progress = NULL;
  options.cancel = NULL;
  EXPECT_OK(mr_convert(&options, NULL));
  unlink(file.name);
  remove_folder(&folder);
}

static void later_calls_end_too(void) {
  mr_cancel* cancel = NULL;
  EXPECT_OK(mr_cancel_create(&cancel));
  mr_open_options options = {sizeof options};
  options.cancel = cancel;
  mr_plan* plan = make_plan(NUMBERS);
  mr_loader* loader = NULL;
  EXPECT_OK(mr_loader_open(plan, NULL, &options, &loader));
  mr_cancel_set(cancel);
  mr_batch* batch = next_batch(loader);  // what is open goes on
  EXPECT(batch != NULL);
  mr_batch_release(batch);
  mr_loader_free(loader);
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_CANCELLED, "cancelled");
  mr_plan_free(plan);
  mr_cancel_free(cancel);
}

static void null_is_no_handle(void) {
  EXPECT_ERROR(mr_cancel_create(NULL), MR_INVALID_ARGUMENT, "cancel is NULL");
  mr_cancel_set(NULL);
  mr_cancel_free(NULL);
}

int main(void) {
  const test_case cases[] = {
      {"OpeningEnds", opening_ends},         {"ExplainingEnds", explaining_ends},
      {"ConversionEnds", conversion_ends},   {"LaterCallsEndToo", later_calls_end_too},
      {"NullIsNoHandle", null_is_no_handle}, {NULL, NULL}};
  return run_cases("CCancel", cases);
}
