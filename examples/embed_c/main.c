// Opens a pipeline file and prints its batches, and on standard error what the program waited for:
//   embed_c PIPELINE.pbtxt [NAME VALUE]...
//   cc -std=c11 main.c $(pkg-config --cflags --libs millrace) -o embed_c
#include <inttypes.h>
#include <millrace.h>
#include <millrace_diagnosis.h>
#include <stdio.h>

static mr_error* print_batch(const mr_batch* batch) {
  mr_info info = {sizeof info};
  mr_error* error = mr_batch_info(batch, &info);
  if (error != NULL) return error;
  printf("batch %" PRIu64 ": %" PRId64 " rows", info.index, info.valid_rows);
  for (int32_t i = 0; i < info.num_tensors; ++i) {
    mr_tensor tensor = {sizeof tensor};
    error = mr_batch_tensor(batch, (size_t)i, &tensor);
    if (error != NULL) return error;
    printf(", %s [", tensor.name);
    for (int32_t d = 0; d < tensor.rank; ++d) {
      printf("%s%" PRId64, d == 0 ? "" : ", ", tensor.shape[d]);
    }
    printf("]");
  }
  printf("\n");
  return NULL;
}

static mr_error* print_batches(mr_loader* loader) {
  for (;;) {
    mr_batch* batch = NULL;
    int32_t outcome = MR_FAILED;
    mr_error* error = mr_loader_next(loader, -1, &batch, &outcome);
    if (error != NULL || outcome == MR_END) return error;
    error = print_batch(batch);
    mr_batch_release(batch);
    if (error != NULL) return error;
  }
}

static void print_sentence(void* user, const mr_diagnosis* diagnosis) {
  (void)user;
  fprintf(stderr, "%s\n", diagnosis->sentence);
}

int main(int argc, char** argv) {
  enum { kMostVariables = 32 };
  const char* names[kMostVariables];
  const char* values[kMostVariables];
  size_t count = 0;
  for (int i = 2; i + 1 < argc && count < kMostVariables; i += 2, ++count) {
    names[count] = argv[i];
    values[count] = argv[i + 1];
  }
  mr_plan* plan = NULL;
  mr_loader* loader = NULL;
  mr_error* error = mr_plan_from_file(argc > 1 ? argv[1] : "", names, values, count, &plan);
  if (error == NULL) error = mr_loader_open(plan, NULL, NULL, &loader);
  if (error == NULL) error = print_batches(loader);
  if (error == NULL) error = mr_loader_diagnose(loader, NULL, print_sentence, NULL);
  if (error != NULL) fprintf(stderr, "%s\n", mr_error_message(error));
  const int failed = error != NULL;
  mr_error_free(error);
  mr_loader_free(loader);
  mr_plan_free(plan);
  return failed;
}
