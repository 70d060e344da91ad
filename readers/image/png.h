#ifndef MILLRACE_READERS_IMAGE_PNG_H_
#define MILLRACE_READERS_IMAGE_PNG_H_

#include <spng.h>

#include <memory>

namespace millrace::readers::internal {

struct SpngFree {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using SpngContext = std::unique_ptr<spng_ctx, SpngFree>;

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_IMAGE_PNG_H_
