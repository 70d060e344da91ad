#include "streams.h"

#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

path make_file(const char* bytes, size_t size) {
  path made = {"/tmp/millrace_capi_XXXXXX"};
  const int file = mkstemp(made.name);
  EXPECT(file >= 0);
  EXPECT_EQ(write(file, bytes, size), (ssize_t)size);
  close(file);
  return made;
}

mr_plan* make_plan_of(const char* text, const path* file) {
  const char* names[] = {"FILE"};
  const char* values[] = {file->name};
  mr_plan* plan = NULL;
  EXPECT_OK(mr_plan_from_text(text, strlen(text), "plan", names, values, 1, &plan));
  return plan;
}

mr_plan* make_plan(const char* text) {
  mr_plan* plan = NULL;
  EXPECT_OK(mr_plan_from_text(text, strlen(text), "plan", NULL, NULL, 0, &plan));
  return plan;
}

mr_loader* open_stream(const char* text, mr_context* context, const mr_open_options* options) {
  mr_plan* plan = make_plan(text);
  mr_loader* loader = NULL;
  EXPECT_OK(mr_loader_open(plan, context, options, &loader));
  mr_plan_free(plan);
  return loader;
}

mr_loader* open_file(const char* text, const path* file) {
  mr_plan* plan = make_plan_of(text, file);
  mr_loader* loader = NULL;
  mr_open_options options = {sizeof options};
  options.index_folder = "/tmp";
  EXPECT_OK(mr_loader_open(plan, NULL, &options, &loader));
  mr_plan_free(plan);
  return loader;
}

mr_loader* open_with_ops(const char* text, const mr_ops* ops, int rank, int world, int threads) {
  mr_context_options context_options = {sizeof context_options};
  context_options.threads = threads;
  mr_context* context = NULL;
  EXPECT_OK(mr_context_create(&context_options, &context));
  mr_open_options options = {sizeof options};
  options.ops = ops;
  options.rank = rank;
  options.world = world;
  mr_loader* loader = open_stream(text, context, &options);
  mr_context_free(context);
  return loader;
}

mr_batch* next_batch(mr_loader* loader) {
  mr_batch* batch = NULL;
  int32_t outcome = MR_FAILED;
  EXPECT_OK(mr_loader_next(loader, -1, &batch, &outcome));
  EXPECT_EQ(outcome, batch == NULL ? MR_END : MR_BATCH);
  return batch;
}

int64_t first_number(const mr_batch* batch) {
  mr_tensor tensor = {sizeof tensor};
  int64_t number = -1;
  EXPECT_OK(mr_batch_tensor(batch, 0, &tensor));
  EXPECT_EQ(tensor.dtype, MR_INT64);
  if (tensor.data != NULL) memcpy(&number, tensor.data, sizeof number);
  return number;
}
