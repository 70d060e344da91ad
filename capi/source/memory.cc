#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/source/source.h"

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_memory_create(const void* const* records, const size_t* sizes, size_t count,
                           mr_memory** memory) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_memory_create", {{"records", records != nullptr || count == 0},
                                              {"sizes", sizes != nullptr || count == 0},
                                              {"memory", memory != nullptr}}));
    std::vector<std::string_view> views;
    views.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (records[i] == nullptr && sizes[i] != 0) {
        return absl::InvalidArgumentError(absl::StrCat("mr_memory_create: record ", i, " is NULL"));
      }
      views.emplace_back(static_cast<const char*>(records[i]), sizes[i]);
    }
    *memory = new mr_memory{pipeline::MemoryRecords::Make(views)};
    return absl::OkStatus();
  });
}

void mr_memory_free(mr_memory* memory) { delete memory; }
