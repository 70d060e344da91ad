#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_GUARDED_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_GUARDED_H_

#include <dnnl.hpp>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace::trainer {

// Runs `body`, which returns a status; an exception of oneDNN becomes one.
template <typename Body>
auto Guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    return absl::InternalError(
        absl::StrCat("oneDNN: ", error.what(), " (status ", static_cast<int>(error.status), ")"));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory in the model's tensors");
  }
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_GUARDED_H_
