// Programs and libraries of different versions: structs that are shorter or longer than the
// library's.
#include <millrace_collectives.h>
#include <millrace_device.h>
#include <millrace_diagnosis.h>
#include <millrace_ops.h>
#include <millrace_options.h>
#include <millrace_push.h>
#include <stddef.h>

#include "expect.h"
#include "streams.h"

// Fields are appended where one ends, so none may have padding behind it.
#define EXPECT_NO_PADDING(type, last)                                                     \
  _Static_assert(sizeof(type) == offsetof(type, last) + sizeof(((type*)0)->last), #type); \
  _Static_assert(offsetof(type, struct_size) == 0, #type)
EXPECT_NO_PADDING(mr_record, reserved);
EXPECT_NO_PADDING(mr_peer, phase);
EXPECT_NO_PADDING(mr_context_options, memory);
EXPECT_NO_PADDING(mr_stage, options);
EXPECT_NO_PADDING(mr_open_options, http);
EXPECT_NO_PADDING(mr_http_options, sign_destroy);
EXPECT_NO_PADDING(mr_batch_memory, destroy);
EXPECT_NO_PADDING(mr_feed_options, max_device_bytes);
EXPECT_NO_PADDING(mr_diagnosis_options, prefetch);
EXPECT_NO_PADDING(mr_diagnosis, wait_fraction);
EXPECT_NO_PADDING(mr_comm_options, user);
EXPECT_NO_PADDING(mr_comm_place, backend);
EXPECT_NO_PADDING(mr_reducer_options, first_step);
EXPECT_NO_PADDING(mr_step_outcome, rows);
EXPECT_NO_PADDING(mr_reducer_counters, reserved);
EXPECT_NO_PADDING(mr_batch_view, draws);
EXPECT_NO_PADDING(mr_column, stride_bytes);
EXPECT_NO_PADDING(mr_run_view, run);
EXPECT_NO_PADDING(mr_run_op, preferred_rows);
EXPECT_NO_PADDING(mr_batch_op, group_rows);
EXPECT_NO_PADDING(mr_sample_view, sample);
EXPECT_NO_PADDING(mr_sample_op, num_removes);
EXPECT_NO_PADDING(mr_push_options, max_bytes);
EXPECT_NO_PADDING(mr_lent_record, user);
EXPECT_NO_PADDING(mr_length, batches_per_epoch);
EXPECT_NO_PADDING(mr_field, shape);
EXPECT_NO_PADDING(mr_info, num_damaged);
EXPECT_NO_PADDING(mr_tensor, shape);
EXPECT_NO_PADDING(mr_launcher, found);
EXPECT_NO_PADDING(mr_writer_options, reserved);
EXPECT_NO_PADDING(mr_convert_options, cancel);
EXPECT_NO_PADDING(mr_convert_report, file_bytes);
_Static_assert(sizeof(mr_sample_id) == 24, "mr_sample_id");
_Static_assert(sizeof(mr_shard) == 3 * sizeof(size_t), "mr_shard");
_Static_assert(sizeof(mr_gradient) == 8 + 3 * sizeof(void*), "mr_gradient");
_Static_assert(sizeof(mr_feature) == 24 + 2 * sizeof(void*), "mr_feature");

static void the_library_is_the_headers(void) {
  EXPECT_EQ(mr_abi_version(), MR_ABI_MAJOR << 16 | MR_ABI_MINOR);
  EXPECT(strlen(mr_version_text()) >= 5);
}

static void a_struct_without_a_size_is_invalid(void) {
  mr_plan* plan = make_plan(NUMBERS);
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_batch* batch = next_batch(loader);
  mr_loader* other = NULL;
  mr_context* context = NULL;
  mr_push* push = NULL;
  mr_writer* writer = NULL;
  mr_feed* feed = NULL;
  const size_t wrong[] = {0, sizeof(size_t) - 1, 1 << 20, (size_t)-1};
  for (int i = 0; i < 4; ++i) {
    mr_open_options open_options = {wrong[i]};
    mr_context_options context_options = {wrong[i]};
    mr_info info = {wrong[i]};
    mr_tensor tensor = {wrong[i]};
    mr_length length = {wrong[i]};
    mr_launcher launcher = {wrong[i]};
    mr_push_options push_options = {wrong[i]};
    mr_writer_options writer_options = {wrong[i]};
    mr_feed_options feed_options = {wrong[i]};
    EXPECT_ERROR(mr_writer_open(&writer_options, &writer), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_writer_options)");
    EXPECT_ERROR(mr_push_create(&push_options, &push), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_push_options)");
    EXPECT_ERROR(mr_loader_open(plan, NULL, &open_options, &other), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_open_options)");
    EXPECT_ERROR(mr_feed_open(plan, NULL, &open_options, NULL, &feed), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_open_options)");
    EXPECT_ERROR(mr_feed_open(plan, NULL, NULL, &feed_options, &feed), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_feed_options)");
    EXPECT_ERROR(mr_explain(plan, NULL, &open_options, take_text, NULL), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_open_options)");
    EXPECT_ERROR(mr_context_create(&context_options, &context), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_context_options)");
    EXPECT_ERROR(mr_batch_info(batch, &info), MR_INVALID_ARGUMENT, "set it to sizeof(mr_info)");
    EXPECT_ERROR(mr_batch_tensor(batch, 0, &tensor), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_tensor)");
    EXPECT_ERROR(mr_loader_length(loader, &length), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_length)");
    EXPECT_ERROR(mr_detect_launcher(&launcher, NULL, NULL), MR_INVALID_ARGUMENT,
                 "set it to sizeof(mr_launcher)");
    EXPECT_EQ(info.struct_size, wrong[i]);
    EXPECT_EQ(info.rows, 0);
  }
  EXPECT(other == NULL && context == NULL && push == NULL && writer == NULL && feed == NULL);
  mr_batch_release(batch);
  mr_loader_free(loader);
  mr_plan_free(plan);
}

// The fields of an older version, which ended behind `world`; what lies behind it is not theirs.
static void shorter_options_get_defaults(void) {
  mr_open_options options;
  memset(&options, 0xff, sizeof options);
  options.struct_size = offsetof(mr_open_options, token);
  options.rank = 1;
  options.world = 2;
  mr_loader* loader = open_stream(NUMBERS, NULL, &options);
  mr_batch* batch = next_batch(loader);
  EXPECT_EQ(first_number(batch), 4);
  mr_batch_release(batch);
  mr_loader_free(loader);
}

static void shorter_results_are_not_written_behind_their_end(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_batch* batch = next_batch(loader);
  mr_info info;
  memset(&info, 0x77, sizeof info);
  info.struct_size = offsetof(mr_info, valid_rows);
  EXPECT_OK(mr_batch_info(batch, &info));
  EXPECT_EQ(info.struct_size, offsetof(mr_info, valid_rows));
  EXPECT_EQ(info.rows, 8);
  EXPECT_EQ(info.valid_rows, 0x7777777777777777);
  EXPECT_EQ(info.num_tensors, 0x77777777);
  mr_batch_release(batch);
  mr_loader_free(loader);
}

// The structs of a newer version.
typedef struct newer_options {
  mr_open_options known;
  int64_t added;
} newer_options;
typedef struct newer_info {
  mr_info known;
  int64_t added;
} newer_info;

static void longer_options_must_be_zero_where_they_are_unknown(void) {
  mr_plan* plan = make_plan(NUMBERS);
  mr_loader* loader = NULL;
  newer_options options;
  memset(&options, 0, sizeof options);
  options.known.struct_size = sizeof options;
  options.added = 1;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options.known, &loader), MR_INVALID_ARGUMENT,
               "older than the header");
  options.added = 0;
  EXPECT_OK(mr_loader_open(plan, NULL, &options.known, &loader));
  mr_loader_free(loader);
  mr_plan_free(plan);
}

static void longer_results_are_zero_where_they_are_unknown(void) {
  mr_loader* loader = open_stream(NUMBERS, NULL, NULL);
  mr_batch* batch = next_batch(loader);
  newer_info info;
  memset(&info, 0x77, sizeof info);
  info.known.struct_size = sizeof info;
  EXPECT_OK(mr_batch_info(batch, &info.known));
  EXPECT_EQ(info.known.rows, 8);
  EXPECT_EQ(info.known.num_tensors, 1);
  EXPECT_EQ(info.added, 0);
  mr_batch_release(batch);
  mr_loader_free(loader);
}

static const test_case cases[] = {
    {"TheLibraryIsTheHeaders", the_library_is_the_headers},
    {"AStructWithoutASizeIsInvalid", a_struct_without_a_size_is_invalid},
    {"ShorterOptionsGetDefaults", shorter_options_get_defaults},
    {"ShorterResultsAreNotWrittenBehindTheirEnd", shorter_results_are_not_written_behind_their_end},
    {"LongerOptionsMustBeZeroWhereTheyAreUnknown",
     longer_options_must_be_zero_where_they_are_unknown},
    {"LongerResultsAreZeroWhereTheyAreUnknown", longer_results_are_zero_where_they_are_unknown},
    {NULL, NULL}};

int main(void) { return run_cases("CSizes", cases); }
