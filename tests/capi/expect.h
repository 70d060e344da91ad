#ifndef MILLRACE_TESTS_CAPI_EXPECT_H_
#define MILLRACE_TESTS_CAPI_EXPECT_H_

#include <millrace.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// The cases of a test program in C, which say what GoogleTest's say, so that they are counted.

typedef struct test_case {
  const char* name;
  void (*run)(void);
} test_case;

// How many expectations have failed.
extern int failures;

#define EXPECT(condition) expect((condition) != 0, #condition, __FILE__, __LINE__)
#define EXPECT_EQ(a, b) expect_eq((long long)(a), (long long)(b), #a " == " #b, __FILE__, __LINE__)
// Expects no error; frees it.
#define EXPECT_OK(call) expect_error((call), MR_OK, NULL, __FILE__, __LINE__)
// Expects an error with this code, whose message has `part`; frees it.
#define EXPECT_ERROR(call, code, part) expect_error((call), (code), (part), __FILE__, __LINE__)

void expect(int condition, const char* text, const char* file, int line);
void expect_eq(long long a, long long b, const char* text, const char* file, int line);
void expect_error(mr_error* error, int32_t code, const char* part, const char* file, int line);

// Runs the cases of `suite`, up to one without a name, and returns the exit status of main.
int run_cases(const char* suite, const test_case* cases);

// A text that a sink has taken.
typedef struct text {
  char bytes[1 << 16];
  size_t size;
  int pieces;
} text;
void take_text(void* user, const char* bytes, size_t size);

#endif  // MILLRACE_TESTS_CAPI_EXPECT_H_
