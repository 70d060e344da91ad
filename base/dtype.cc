#include "base/dtype.h"

#include <array>

namespace millrace {
namespace {

struct Entry {
  std::string_view name;
  size_t size;
};

// Indexed by the enum's value.
constexpr std::array<Entry, 8> kEntries = {{{"bytes", 1},
                                            {"uint8", 1},
                                            {"int32", 4},
                                            {"int64", 8},
                                            {"float16", 2},
                                            {"bfloat16", 2},
                                            {"float32", 4},
                                            {"float64", 8}}};

}  // namespace

size_t SizeOf(DType dtype) { return kEntries[static_cast<size_t>(dtype)].size; }

std::string_view Name(DType dtype) { return kEntries[static_cast<size_t>(dtype)].name; }

}  // namespace millrace
