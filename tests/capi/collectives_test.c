// Groups of ranks: threads of this process, and processes that meet in a folder.
#include <millrace_collectives.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "ranks.h"

static const int kBothEnd[2] = {0, 0};
// The exit status of a rank that dies.
#define DEAD 9
static const int kOneDies[2] = {0, DEAD};

static void compute_together(mr_comm* comm) {
  const int32_t rank = mr_comm_rank(comm), size = mr_comm_size(comm);
  mr_comm_place place = {sizeof place};
  EXPECT_OK(mr_comm_get_place(comm, &place));
  EXPECT_EQ(place.rank, rank);
  EXPECT_EQ(place.size, size);
  EXPECT_EQ(place.local_rank, rank);
  EXPECT_EQ(place.local_size, size);

  float sums[3] = {(float)rank, 1, 0.5F};
  EXPECT_OK(mr_comm_allreduce(comm, sums, MR_FLOAT32, 3, MR_SUM));
  EXPECT(sums[0] == (float)(size * (size - 1) / 2) && sums[1] == (float)size);
  double average = rank;
  EXPECT_OK(mr_comm_allreduce(comm, &average, MR_FLOAT64, 1, MR_AVERAGE));
  EXPECT(average == (size - 1) / 2.0);
  int64_t most = rank, least = rank;
  int32_t product = 2;
  EXPECT_OK(mr_comm_allreduce(comm, &most, MR_INT64, 1, MR_MAX));
  EXPECT_OK(mr_comm_allreduce(comm, &least, MR_INT64, 1, MR_MIN));
  EXPECT_OK(mr_comm_allreduce(comm, &product, MR_INT32, 1, MR_PRODUCT));
  EXPECT_EQ(most, size - 1);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(product, 1 << size);
  uint8_t bytes[2] = {(uint8_t)rank, 7};
  EXPECT_OK(mr_comm_broadcast(comm, bytes, MR_UINT8, 2, size - 1));
  EXPECT_EQ(bytes[0], size - 1);
  EXPECT_OK(mr_comm_allreduce(comm, NULL, MR_FLOAT32, 0, MR_SUM));
  EXPECT_OK(mr_comm_barrier(comm));
}

static void threads_compute_together(void) {
  for (int32_t size = 1; size <= 3; ++size) run_threads(size, compute_together);
}

static void processes_compute_together(void) {
  run_processes(NULL, kBothEnd, compute_together);
  mr_comm_options options = {sizeof options};
  options.no_watchdog = 1;
  options.backend = "tcp";
  run_processes(&options, kBothEnd, compute_together);
}

static void a_process_alone_is_a_group(void) {
  static text reason;
  mr_comm* comm = NULL;
  mr_comm_options options = {sizeof options};
  options.world = 1;
  EXPECT_OK(mr_comm_connect(&options, &comm, take_text, &reason));
  EXPECT(strstr(reason.bytes, "single") != NULL);
  compute_together(comm);
  mr_comm_place place = {sizeof place};
  EXPECT_OK(mr_comm_get_place(comm, &place));
  EXPECT(strcmp(place.backend, "single") == 0);
  mr_comm_free(comm);
}

static void the_ranks_are_the_launchers(void) {
  mr_comm* comm = NULL;
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "1", 1);
  EXPECT_OK(mr_comm_connect(NULL, &comm, NULL, NULL));
  EXPECT_EQ(mr_comm_size(comm), 1);
  mr_comm_free(comm);
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
}

static void disagree(mr_comm* comm) {
  float data[4] = {0};
  const uint64_t count = mr_comm_rank(comm) == 0 ? 4 : 3;
  EXPECT_ERROR(mr_comm_allreduce(comm, data, MR_FLOAT32, count, MR_SUM), MR_INVALID_ARGUMENT, NULL);
}

static void calls_that_do_not_match_are_invalid(void) {
  run_threads(2, disagree);
  run_processes(NULL, kBothEnd, disagree);
}

static void abort_by_one(mr_comm* comm) {
  if (mr_comm_rank(comm) == 1) {
    await_other(comm);
    EXPECT_OK(mr_comm_abort(comm, "the disk is full"));
  } else {
    tell_other(comm);
    EXPECT_ERROR(mr_comm_barrier(comm), MR_CANCELLED, "the disk is full");
  }
}

static void an_abort_ends_the_calls_of_all(void) {
  run_threads(2, abort_by_one);
  run_processes(NULL, kBothEnd, abort_by_one);
}

static void leave_by_one(mr_comm* comm) {
  if (mr_comm_rank(comm) == 1) {
    EXPECT_OK(mr_comm_leave(comm, "a bad file"));
  } else {
    mr_error* error = mr_comm_barrier(comm);
    mr_peer peer = {sizeof peer};
    EXPECT_EQ(mr_error_peer(error, &peer), 1);
    EXPECT_EQ(peer.rank, 1);
    EXPECT_ERROR(error, MR_UNAVAILABLE, "a bad file");
  }
}

static void a_rank_that_leaves_says_why(void) {
  run_threads(2, leave_by_one);
  run_processes(NULL, kBothEnd, leave_by_one);
}

static void* cancel(void* comm) {
  mr_comm_cancel(comm);
  return NULL;
}

static void cancel_by_one(mr_comm* comm) {
  if (mr_comm_rank(comm) == 1) {
    pthread_t thread;
    await_other(comm);
    EXPECT_EQ(pthread_create(&thread, NULL, cancel, comm), 0);
    EXPECT_ERROR(mr_comm_barrier(comm), MR_CANCELLED, "mr_comm_cancel");
    pthread_join(thread, NULL);
    tell_other(comm);
  } else {
    tell_other(comm);
    await_other(comm);
    mr_error_free(mr_comm_barrier(comm));  // the other has said that it came
    EXPECT_ERROR(mr_comm_barrier(comm), MR_CANCELLED, "mr_comm_cancel");
  }
}

static void a_cancel_ends_the_wait(void) { run_processes(NULL, kBothEnd, cancel_by_one); }

static mr_error* end_at_third_look(void* user) {
  if (++*(int*)user < 3) return NULL;
  return mr_error_create(MR_ABORTED, "a signal came");
}

static void a_watch_ends_the_wait_for_ranks_that_do_not_come(void) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    char folder[] = "/tmp/millrace_watch_XXXXXX";
    char place[64];
    int looks = 0;
    mr_comm* comm = NULL;
    mr_comm_options options = {sizeof options};
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(place, sizeof place, "file:%s", folder);
    options.rendezvous = place;
    options.rank = rank;
    options.world = 2;
    options.watch = end_at_third_look;
    options.user = &looks;
    EXPECT_ERROR(mr_comm_connect(&options, &comm, NULL, NULL), MR_ABORTED, "a signal came");
    EXPECT(comm == NULL);
    EXPECT_EQ(rmdir(folder), 0);
  }
}

static void die_or_wait(mr_comm* comm) {
  if (mr_comm_rank(comm) == 1) {
    await_other(comm);
    _exit(DEAD);
  }
  tell_other(comm);
  mr_error* error = mr_comm_barrier(comm);
  mr_peer peer = {sizeof peer};
  EXPECT_EQ(mr_error_code(error), MR_UNAVAILABLE);
  EXPECT_EQ(mr_error_peer(error, &peer), 1);
  EXPECT_EQ(peer.rank, 1);
  EXPECT_EQ(peer.bucket, -1);
  mr_error_free(error);
}

static void a_rank_that_dies_is_named(void) {
  run_processes(NULL, kOneDies, die_or_wait);
  mr_comm_options options = {sizeof options};
  options.no_watchdog = 1;
  run_processes(&options, kOneDies, die_or_wait);
}

static void late_by_one(mr_comm* comm) {
  if (mr_comm_rank(comm) == 0) {
    EXPECT_ERROR(mr_comm_barrier(comm), MR_DEADLINE_EXCEEDED, "rank 1");
    tell_other(comm);
  } else {
    await_other(comm);
  }
}

// Set while the watchdog may look at it.
static _Atomic(mr_comm*) stalling;
static text stall;

static void keep_stall(void* user, const char* bytes, size_t size) {
  take_text(user, bytes, size);
  mr_comm_cancel(stalling);
}

static void stall_one(mr_comm* comm) {
  stalling = comm;
  mr_reducer* reducer = make_reducer(comm, 1, 4, NULL);
  if (mr_comm_rank(comm) == 0) {
    give(reducer, 0, 1);
    EXPECT_ERROR(mr_reducer_finish(reducer), MR_CANCELLED, "mr_comm_cancel");
    EXPECT(strstr(stall.bytes, "rank 1 has not come on") != NULL);
    tell_other(comm);
  } else {
    await_other(comm);
  }
  mr_reducer_free(reducer);
}

static void a_rank_that_stalls_is_told(void) {
  mr_comm_options options = {sizeof options};
  options.stall_report_ns = 1000000;
  options.stall_abort_ns = -1;
  options.stalled = keep_stall;
  options.user = &stall;
  run_processes(&options, kBothEnd, stall_one);
}

static void fork_and_ask(mr_comm* comm) {
  mr_reducer* reducer = make_reducer(comm, 1, 4, NULL);
  const pid_t child = fork();
  if (child == 0) {
    const int before = failures;
    mr_reducer* other = NULL;
    EXPECT_ERROR(mr_comm_barrier(comm), MR_FAILED_PRECONDITION, "fork");
    EXPECT_ERROR(mr_reducer_create(comm, NULL, 0, NULL, &other), MR_FAILED_PRECONDITION, "fork");
    EXPECT_ERROR(mr_reducer_mark_ready(reducer, 0), MR_FAILED_PRECONDITION, "fork");
    EXPECT_ERROR(mr_reducer_finish(reducer), MR_FAILED_PRECONDITION, "fork");
    mr_reducer_free(reducer);
    mr_comm_free(comm);
    _exit(failures == before ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  give(reducer, 0, 2);
  EXPECT_OK(mr_reducer_finish(reducer));
  EXPECT(gradient_of(reducer, 0)[3] == 4);
  mr_reducer_free(reducer);
}

static void a_forked_child_is_refused_and_ends_nothing(void) {
  run_processes(NULL, kBothEnd, fork_and_ask);
}

static void wrong_arguments_are_named(void) {
  mr_comm* comm = NULL;
  mr_comm_options options = {sizeof options};
  options.backend = "pigeons";
  EXPECT_ERROR(mr_comm_connect(&options, &comm, NULL, NULL), MR_INVALID_ARGUMENT, "pigeons");
  options.backend = "nccl";
  EXPECT_ERROR(mr_comm_connect(&options, &comm, NULL, NULL), MR_UNIMPLEMENTED, "nccl");
  options.backend = NULL;
  options.rendezvous = "nowhere";
  EXPECT_ERROR(mr_comm_connect(&options, &comm, NULL, NULL), MR_INVALID_ARGUMENT, "nowhere");
  options.rendezvous = "file:/tmp";
  EXPECT_ERROR(mr_comm_connect(&options, &comm, NULL, NULL), MR_FAILED_PRECONDITION, "rank");
  options.rendezvous = NULL;
  options.world = 2;
  options.rank = 2;
  EXPECT_ERROR(mr_comm_connect(&options, &comm, NULL, NULL), MR_INVALID_ARGUMENT, NULL);
  options.rank = 0;
  options.timeout_ns = -1;
  EXPECT_ERROR(mr_comm_connect(&options, &comm, NULL, NULL), MR_INVALID_ARGUMENT, "timeout_ns");
  EXPECT_ERROR(mr_comm_threads(0, 0, &comm), MR_INVALID_ARGUMENT, "0 ranks");
  EXPECT_ERROR(mr_comm_threads(1, -1, &comm), MR_INVALID_ARGUMENT, "-1 ns");
  EXPECT(comm == NULL);

  EXPECT_OK(mr_comm_threads(1, 0, &comm));
  float number = 0;
  EXPECT_ERROR(mr_comm_allreduce(comm, NULL, MR_FLOAT32, 1, MR_SUM), MR_INVALID_ARGUMENT, "data");
  EXPECT_ERROR(mr_comm_allreduce(comm, &number, MR_BYTES, 1, MR_SUM), MR_INVALID_ARGUMENT, "dtype");
  EXPECT_ERROR(mr_comm_allreduce(comm, &number, 8, 1, MR_SUM), MR_INVALID_ARGUMENT, "dtype 8");
  EXPECT_ERROR(mr_comm_allreduce(comm, &number, MR_FLOAT32, 1, 5), MR_INVALID_ARGUMENT, "5");
  EXPECT_ERROR(mr_comm_allreduce(comm, &number, MR_FLOAT32, (uint64_t)-1, MR_SUM),
               MR_INVALID_ARGUMENT, "too many");
  EXPECT_ERROR(mr_comm_allreduce(comm, &number, MR_INT32, 1, MR_AVERAGE), MR_INVALID_ARGUMENT,
               NULL);
  EXPECT_ERROR(mr_comm_broadcast(comm, &number, MR_FLOAT32, 1, 1), MR_INVALID_ARGUMENT, NULL);
  mr_comm_free(comm);
}

#define EXPECT_NULL(call, name) EXPECT_ERROR(call, MR_INVALID_ARGUMENT, name " is NULL")

static void null_is_named(void) {
  mr_comm_place place = {sizeof place};
  mr_comm* comm = NULL;
  EXPECT_OK(mr_comm_threads(1, 0, &comm));
  EXPECT_NULL(mr_comm_connect(NULL, NULL, NULL, NULL), "mr_comm_connect: comm");
  EXPECT_NULL(mr_comm_threads(1, 0, NULL), "mr_comm_threads: comms");
  EXPECT_NULL(mr_comm_get_place(NULL, &place), "mr_comm_get_place: comm");
  EXPECT_NULL(mr_comm_get_place(comm, NULL), "place");
  EXPECT_NULL(mr_comm_allreduce(NULL, NULL, MR_FLOAT32, 0, MR_SUM), "mr_comm_allreduce: comm");
  EXPECT_NULL(mr_comm_broadcast(NULL, NULL, MR_FLOAT32, 0, 0), "mr_comm_broadcast: comm");
  EXPECT_NULL(mr_comm_barrier(NULL), "mr_comm_barrier: comm");
  EXPECT_NULL(mr_comm_abort(NULL, NULL), "mr_comm_abort: comm");
  EXPECT_NULL(mr_comm_leave(NULL, NULL), "mr_comm_leave: comm");
  EXPECT_EQ(mr_comm_rank(NULL), -1);
  EXPECT_EQ(mr_comm_size(NULL), -1);
  mr_comm_cancel(NULL);
  mr_comm_free(NULL);
  mr_comm_free(comm);
}

static void structs_need_their_sizes(void) {
  mr_comm* comm = NULL;
  mr_comm_options options = {0};
  mr_comm_place place = {0};
  EXPECT_ERROR(mr_comm_connect(&options, &comm, NULL, NULL), MR_INVALID_ARGUMENT,
               "sizeof(mr_comm_options)");
  EXPECT_OK(mr_comm_threads(1, 0, &comm));
  EXPECT_ERROR(mr_comm_get_place(comm, &place), MR_INVALID_ARGUMENT, "sizeof(mr_comm_place)");
  mr_comm_free(comm);
}

static void a_limit_ends_the_wait(void) {
  mr_comm_options options = {sizeof options};
  options.timeout_ns = 1000000;
  run_processes(&options, kBothEnd, late_by_one);
}

static const test_case cases[] = {
    {"ProcessesComputeTogether", processes_compute_together},
    {"AProcessAloneIsAGroup", a_process_alone_is_a_group},
    {"TheRanksAreTheLaunchers", the_ranks_are_the_launchers},
    {"ARankThatDiesIsNamed", a_rank_that_dies_is_named},
    {"ACancelEndsTheWait", a_cancel_ends_the_wait},
    {"ALimitEndsTheWait", a_limit_ends_the_wait},
    {"ARankThatStallsIsTold", a_rank_that_stalls_is_told},
    {"AWatchEndsTheWaitForRanksThatDoNotCome", a_watch_ends_the_wait_for_ranks_that_do_not_come},
    {"AForkedChildIsRefusedAndEndsNothing", a_forked_child_is_refused_and_ends_nothing},
    {"CallsThatDoNotMatchAreInvalid", calls_that_do_not_match_are_invalid},
    {"AnAbortEndsTheCallsOfAll", an_abort_ends_the_calls_of_all},
    {"ARankThatLeavesSaysWhy", a_rank_that_leaves_says_why},
    {"ThreadsComputeTogether", threads_compute_together},
    {"WrongArgumentsAreNamed", wrong_arguments_are_named},
    {"NullIsNamed", null_is_named},
    {"StructsNeedTheirSizes", structs_need_their_sizes},
    {NULL, NULL}};

int main(void) { return run_cases("CCollectives", cases); }
