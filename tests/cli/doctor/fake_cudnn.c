// A libcudnn that knows its version, and crashes where FAKE_CUDNN_CRASHES is set.
#include <stddef.h>
#include <stdlib.h>

size_t cudnnGetVersion(void) {
  if (getenv("FAKE_CUDNN_CRASHES") != NULL) abort();
  return 91900;
}

size_t cudnnGetCudartVersion(void) { return 13010; }
