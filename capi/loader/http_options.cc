#include "capi/loader/http_options.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "capi/call/sized.h"
#include "capi/call/user.h"

namespace millrace::capi {
namespace {

// Sets a number, which keeps its default for 0, and is 0 below.
template <typename T>
void Set(int64_t given, T& number) {
  if (given != 0) number = static_cast<T>(std::max<int64_t>(given, 0));
}
void Set(int64_t given, std::chrono::milliseconds& time) {
  if (given != 0) time = std::chrono::milliseconds(std::max<int64_t>(given, 0));
}

void AddHeader(void* headers, const char* text, size_t size) {
  static_cast<std::vector<std::string>*>(headers)->emplace_back(text, size);
}

readers::RequestSigner SignerOf(const mr_http_options& taken) {
  const auto user = std::make_shared<const User>(taken.sign_user, taken.sign_destroy);
  if (taken.sign == nullptr) return {};
  return [sign = taken.sign, user](std::string_view url, uint64_t first, uint64_t last,
                                   std::vector<std::string>& headers) {
    sign(user->get(), std::string(url).c_str(), first, last, AddHeader, &headers);
  };
}

}  // namespace

absl::StatusOr<readers::HttpOptions> HttpOptionsOf(const mr_http_options* given) {
  mr_http_options taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_http_options", taken));
  readers::HttpOptions options;
  options.sign = SignerOf(taken);
  if (taken.ca_file != nullptr) options.ca_file = taken.ca_file;
  Set(taken.max_redirects, options.max_redirects);
  Set(taken.max_attempts, options.max_attempts);
  Set(taken.max_retry_time_ms, options.max_retry_time);
  Set(taken.stall_time_ms, options.stall_time);
  Set(taken.min_bytes_per_second, options.min_bytes_per_second);
  Set(taken.backoff_ms, options.backoff);
  Set(taken.max_backoff_ms, options.max_backoff);
  Set(taken.block_bytes, options.block_bytes);
  Set(taken.cache_bytes, options.cache_bytes);
  Set(taken.read_ahead_blocks, options.read_ahead_blocks);
  Set(taken.max_in_flight, options.max_in_flight);
  return options;
}

}  // namespace millrace::capi
