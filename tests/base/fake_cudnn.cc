// A library that pretends to be cuDNN, as far as its version. FAKE_CUDNN_VERSION says it.

#include <cstddef>

extern "C" __attribute__((visibility("default"))) size_t cudnnGetVersion();
extern "C" size_t cudnnGetVersion() { return FAKE_CUDNN_VERSION; }
