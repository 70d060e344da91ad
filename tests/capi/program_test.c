// The command line: each run is a process of its own, since it prints and sets limits.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "streams.h"

#define MAX_WORDS 8

// What a run has printed on standard output and on standard error.
typedef struct printed {
  text out, err;
} printed;

static void read_all(FILE* file, text* into) {
  char piece[4096];
  size_t size;
  rewind(file);
  while ((size = fread(piece, 1, sizeof piece, file)) > 0) take_text(into, piece, size);
  fclose(file);
}

// Runs `millrace WORDS...`, up to a NULL, and returns its exit code; -1 if it has none.
static int run(const char* const* words, printed* to) {
  memset(to, 0, sizeof *to);
  FILE* const out = tmpfile();
  FILE* const err = tmpfile();
  EXPECT(out != NULL && err != NULL);
  char* argv[MAX_WORDS + 2] = {"millrace"};
  int argc = 1;
  for (; words[argc - 1] != NULL; ++argc) argv[argc] = (char*)words[argc - 1];
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    exit(mr_main(argc, argv));
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  read_all(out, &to->out);
  read_all(err, &to->err);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static printed got;

static void it_says_its_version(void) {
  const char* const words[] = {"--version", NULL};
  EXPECT_EQ(run(words, &got), 0);
  EXPECT(strncmp(got.out.bytes, "millrace ", 9) == 0);
  EXPECT(strstr(got.out.bytes, mr_version_text()) != NULL);
  EXPECT_EQ(got.err.size, 0);
}

static void it_runs_a_plan(void) {
  const path plan = make_file(NUMBERS, sizeof NUMBERS - 1);
  const char* const words[] = {"run", plan.name, "--json", NULL};
  EXPECT_EQ(run(words, &got), 0);
  EXPECT(strstr(got.out.bytes, "\"samples\":20") != NULL);
  unlink(plan.name);
}

static void mistakes_are_told_on_standard_error(void) {
  const char* const missing[] = {"explain", "/nowhere/plan.pbtxt", NULL};
  EXPECT_EQ(run(missing, &got), 1);
  EXPECT(strstr(got.err.bytes, "/nowhere/plan.pbtxt") != NULL);
  EXPECT_EQ(got.out.size, 0);
  const char* const unknown[] = {"no-such-command", NULL};
  EXPECT_EQ(run(unknown, &got), 2);
  EXPECT(strstr(got.err.bytes, "no-such-command") != NULL);
}

static void jobs_are_not_started(void) {
  const char* const words[] = {"train", "job.pbtxt", NULL};
  EXPECT_EQ(run(words, &got), 2);
  EXPECT(got.err.size > 0);
}

int main(void) {
  const test_case cases[] = {
      {"ItSaysItsVersion", it_says_its_version},
      {"ItRunsAPlan", it_runs_a_plan},
      {"MistakesAreToldOnStandardError", mistakes_are_told_on_standard_error},
      {"JobsAreNotStarted", jobs_are_not_started},
      {NULL, NULL}};
  return run_cases("CProgram", cases);
}
