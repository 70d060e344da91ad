// Memory of the program for batches, and how URLs are read.
#include <arpa/inet.h>
#include <millrace_options.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"
#include "streams.h"

// The blocks that were lent.
typedef struct lent {
  pthread_mutex_t mutex;
  int blocks;     // not given back
  int all;        // ever lent
  int most;       // to lend
  int destroyed;  // calls of destroy
} lent;

static void* lend(void* user, size_t bytes, size_t alignment) {
  lent* of = user;
  void* memory = NULL;
  pthread_mutex_lock(&of->mutex);
  if (of->all < of->most) memory = aligned_alloc(alignment, (bytes + 63) / 64 * 64);
  of->all += memory != NULL;
  of->blocks += memory != NULL;
  pthread_mutex_unlock(&of->mutex);
  return memory;
}

static void take_back(void* user, void* memory, size_t bytes) {
  lent* of = user;
  EXPECT(bytes > 0);
  pthread_mutex_lock(&of->mutex);
  --of->blocks;
  pthread_mutex_unlock(&of->mutex);
  free(memory);
}

static void end(void* user) { ++((lent*)user)->destroyed; }

static mr_context* make_context(lent* of, int most) {
  memset(of, 0, sizeof *of);
  pthread_mutex_init(&of->mutex, NULL);
  of->most = most;
  const mr_batch_memory memory = {sizeof memory, lend, take_back, of, end};
  mr_context_options options = {sizeof options};
  options.memory = &memory;
  mr_context* context = NULL;
  EXPECT_OK(mr_context_create(&options, &context));
  return context;
}

static void batches_lie_in_memory_of_the_program(void) {
  lent of;
  mr_context* context = make_context(&of, 1000);
  mr_loader* loader = open_stream(NUMBERS, context, NULL);
  mr_batch* batch = next_batch(loader);
  EXPECT(of.blocks > 0);
  mr_loader_free(loader);
  mr_context_free(context);
  EXPECT_EQ(of.blocks, 1);  // the batch outlives both
  EXPECT_EQ(of.destroyed, 0);
  EXPECT_EQ(first_number(batch), 0);
  mr_batch_release(batch);
  EXPECT_EQ(of.blocks, 0);
  EXPECT_EQ(of.destroyed, 1);
}

static void without_memory_the_stream_fails(void) {
  lent of;
  mr_context* context = make_context(&of, 0);
  mr_loader* loader = open_stream(NUMBERS, context, NULL);
  mr_batch* batch = NULL;
  int32_t outcome;
  EXPECT_ERROR(mr_loader_next(loader, -1, &batch, &outcome), MR_RESOURCE_EXHAUSTED,
               "the program has no memory");
  mr_loader_free(loader);
  mr_context_free(context);
  EXPECT_EQ(of.destroyed, 1);
}

static void memory_needs_both_calls(void) {
  lent of = {0};
  mr_batch_memory memory = {sizeof memory, lend, NULL, &of, end};
  mr_context_options options = {sizeof options};
  options.memory = &memory;
  mr_context* context = NULL;
  EXPECT_ERROR(mr_context_create(&options, &context), MR_INVALID_ARGUMENT, "dealloc");
  EXPECT_EQ(of.destroyed, 1);
  memory.struct_size = 0;
  EXPECT_ERROR(mr_context_create(&options, &context), MR_INVALID_ARGUMENT, "mr_batch_memory");
}

// A server that keeps what the first request says, and closes every connection.
typedef struct server {
  int listener;
  char url[64];
  char request[4096];
  int destroyed;
} server;

static void* serve(void* user) {
  server* of = user;
  for (int number = 0;; ++number) {
    const int client = accept(of->listener, NULL, NULL);
    if (client < 0) return NULL;
    if (number == 0) {
      size_t size = 0;
      while (strstr(of->request, "\r\n\r\n") == NULL && size + 1 < sizeof of->request) {
        const ssize_t got = recv(client, of->request + size, sizeof of->request - 1 - size, 0);
        if (got <= 0) break;
        size += (size_t)got;
      }
    }
    close(client);
  }
}

static void sign(void* user, const char* url, uint64_t first, uint64_t last, mr_sink add,
                 void* headers) {
  server* of = user;
  EXPECT(strcmp(url, of->url) == 0);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(last, 0);
  add(headers, "X-One: 1", 8);
  add(headers, "X-Two: 2", 8);
}

static void end_signing(void* user) { ++((server*)user)->destroyed; }

static void urls_are_read_as_the_options_say(void) {
  server of = {0};
  struct sockaddr_in address = {0};
  socklen_t size = sizeof address;
  of.listener = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(of.listener, (struct sockaddr*)&address, size), 0);
  EXPECT_EQ(listen(of.listener, 8), 0);
  EXPECT_EQ(getsockname(of.listener, (struct sockaddr*)&address, &size), 0);
  snprintf(of.url, sizeof of.url, "http://127.0.0.1:%d/a", ntohs(address.sin_port));
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, NULL, serve, &of), 0);

  path file;
  snprintf(file.name, sizeof file.name, "%s", of.url);
  mr_plan* plan = make_plan_of(
      "stage { tfrecord { files: \"${FILE}\" } } "
      "stage { parse_example { feature { key: \"x\" dtype: INT64 } } } stage { batch { size: 8 } }",
      &file);
  mr_http_options http = {sizeof http};
  http.max_attempts = 3;
  http.backoff_ms = -1;
  http.sign = sign;
  http.sign_user = &of;
  http.sign_destroy = end_signing;
  mr_open_options options = {sizeof options};
  options.http = &http;
  mr_loader* loader = NULL;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_UNAVAILABLE, "3 attempts");
  EXPECT_EQ(of.destroyed, 1);
  EXPECT(strstr(of.request, "X-One: 1\r\n") != NULL);
  EXPECT(strstr(of.request, "X-Two: 2\r\n") != NULL);
  shutdown(of.listener, SHUT_RDWR);
  pthread_join(thread, NULL);
  close(of.listener);

  http.max_in_flight = -1;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT, "max_in_flight");
  http.struct_size = 0;
  EXPECT_ERROR(mr_loader_open(plan, NULL, &options, &loader), MR_INVALID_ARGUMENT,
               "mr_http_options");
  EXPECT_EQ(of.destroyed, 2);
  mr_plan_free(plan);
}

int main(void) {
  const test_case cases[] = {
      {"BatchesLieInMemoryOfTheProgram", batches_lie_in_memory_of_the_program},
      {"WithoutMemoryTheStreamFails", without_memory_the_stream_fails},
      {"MemoryNeedsBothCalls", memory_needs_both_calls},
      {"UrlsAreReadAsTheOptionsSay", urls_are_read_as_the_options_say},
      {NULL, NULL}};
  return run_cases("COptions", cases);
}
