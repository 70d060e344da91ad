// Preloaded: a system that has no pidfd_open, so that no watchdog sees a process of its host end.
// In C, which no preset instruments: a sanitizer's own library would have to come first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>

// As many arguments as a system call has; callers give fewer.
long syscall(long number, long a, long b, long c, long d, long e, long f) {
  static long (*real)(long, long, long, long, long, long, long);
  if (number == SYS_pidfd_open) {
    errno = ENOSYS;
    return -1;
  }
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "syscall");
  return real(number, a, b, c, d, e, f);
}
