#include "base/caught.h"

#include <exception>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// Made while there is memory: a copy takes none.
const absl::Status kNoMemory = absl::ResourceExhaustedError("the system gives no more memory");

}  // namespace

absl::Status ThrownError() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      return absl::InternalError(absl::StrCat("exception: ", error.what()));
    }
    return absl::ResourceExhaustedError("the system gives no more threads");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("exception: not a std::exception");
  }
}

}  // namespace millrace
