#include "ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define MOST_RANKS 8

// By rank: the pipe by which it is told to go on.
static int channels[2][2];

static void open_channels(void) {
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(pipe(channels[rank]), 0);
}

static void close_channels(void) {
  for (int rank = 0; rank < 2; ++rank) {
    close(channels[rank][0]);
    close(channels[rank][1]);
  }
}

void tell_other(mr_comm* comm) { EXPECT_EQ(write(channels[1 - mr_comm_rank(comm)][1], "!", 1), 1); }

void await_other(mr_comm* comm) {
  char byte = 0;
  EXPECT_EQ(read(channels[mr_comm_rank(comm)][0], &byte, 1), 1);
}

typedef struct rank_of_test {
  mr_comm* comm;
  rank_body body;
} rank_of_test;

static void* run_rank(void* user) {
  const rank_of_test* rank = user;
  rank->body(rank->comm);
  mr_comm_free(rank->comm);
  return NULL;
}

void run_threads(int32_t size, rank_body body) {
  mr_comm* comms[MOST_RANKS];
  rank_of_test ranks[MOST_RANKS];
  pthread_t threads[MOST_RANKS];
  open_channels();
  EXPECT_OK(mr_comm_threads(size, 0, comms));
  for (int32_t i = 0; i < size; ++i) {
    ranks[i] = (rank_of_test){comms[i], body};
    EXPECT_EQ(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
  }
  for (int32_t i = 0; i < size; ++i) pthread_join(threads[i], NULL);
  close_channels();
}

static int run_process(const mr_comm_options* options, int32_t rank, rank_body body) {
  const int before = failures;
  mr_comm* comm = NULL;
  mr_comm_options taken = *options;
  taken.rank = rank;
  taken.world = 2;
  EXPECT_OK(mr_comm_connect(&taken, &comm, NULL, NULL));
  if (comm != NULL) body(comm);
  mr_comm_free(comm);
  return failures == before ? 0 : 1;
}

void run_processes(const mr_comm_options* options, const int wanted[2], rank_body body) {
  char folder[] = "/tmp/millrace_ranks_XXXXXX";
  char place[64];
  pid_t children[2];
  mr_comm_options taken = {sizeof taken};
  if (options != NULL) taken = *options;
  open_channels();
  EXPECT(mkdtemp(folder) != NULL);
  snprintf(place, sizeof place, "file:%s", folder);
  taken.rendezvous = place;
  for (int32_t rank = 0; rank < 2; ++rank) {
    children[rank] = fork();
    if (children[rank] == 0) _exit(run_process(&taken, rank, body));
  }
  for (int32_t rank = 0; rank < 2; ++rank) {
    int status = -1;
    EXPECT_EQ(waitpid(children[rank], &status, 0), children[rank]);
    EXPECT(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), wanted[rank]);
  }
  EXPECT_EQ(rmdir(folder), 0);
  close_channels();
}

mr_reducer* make_reducer(mr_comm* comm, int count, int64_t elements,
                         const mr_reducer_options* options) {
  static const char* const names[MOST_GRADIENTS] = {"a", "b", "c", "d"};
  mr_gradient gradients[MOST_GRADIENTS];
  mr_reducer* reducer = NULL;
  for (int i = 0; i < count; ++i) {
    gradients[i] = (mr_gradient){names[i], &elements, 1, MR_FLOAT32, NULL};
  }
  EXPECT_OK(mr_reducer_create(comm, gradients, (size_t)count, options, &reducer));
  return reducer;
}

float* gradient_of(mr_reducer* reducer, size_t index) {
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_reducer_gradient(reducer, index, &tensor));
  return tensor.data;
}

void give(mr_reducer* reducer, size_t index, float number) {
  mr_tensor tensor = {sizeof tensor};
  EXPECT_OK(mr_reducer_gradient(reducer, index, &tensor));
  for (int64_t i = 0; i < tensor.shape[0]; ++i) ((float*)tensor.data)[i] = number;
  EXPECT_OK(mr_reducer_mark_ready(reducer, index));
}
