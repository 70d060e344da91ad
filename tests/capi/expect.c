#include "expect.h"

int failures = 0;

void expect(int condition, const char* text, const char* file, int line) {
  if (condition) return;
  ++failures;
  printf("%s:%d: expected: %s\n", file, line, text);
}

void expect_eq(long long a, long long b, const char* text, const char* file, int line) {
  if (a == b) return;
  ++failures;
  printf("%s:%d: expected: %s; they are %lld and %lld\n", file, line, text, a, b);
}

void expect_error(mr_error* error, int32_t code, const char* part, const char* file, int line) {
  const char* message = mr_error_message(error);
  if (mr_error_code(error) != code || (part != NULL && strstr(message, part) == NULL)) {
    ++failures;
    printf("%s:%d: expected code %d with \"%s\", got %d: %s\n", file, line, (int)code,
           part == NULL ? "" : part, (int)mr_error_code(error), message);
  }
  mr_error_free(error);
}

int run_cases(const char* suite, const test_case* cases) {
  int failed = 0;
  setvbuf(stdout, NULL, _IONBF, 0);
  for (; cases->name != NULL; ++cases) {
    const int before = failures;
    printf("[ RUN      ] %s.%s\n", suite, cases->name);
    cases->run();
    printf("[  %s ] %s.%s\n", failures == before ? "     OK" : "FAILED ", suite, cases->name);
    failed += failures != before;
  }
  return failed == 0 ? 0 : 1;
}

void take_text(void* user, const char* bytes, size_t size) {
  text* taken = user;
  if (size > sizeof taken->bytes - 1 - taken->size) size = sizeof taken->bytes - 1 - taken->size;
  memcpy(taken->bytes + taken->size, bytes, size);
  taken->size += size;
  taken->bytes[taken->size] = '\0';
  ++taken->pieces;
}
