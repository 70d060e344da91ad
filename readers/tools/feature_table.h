#ifndef MILLRACE_READERS_TOOLS_FEATURE_TABLE_H_
#define MILLRACE_READERS_TOOLS_FEATURE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "readers/example_view.h"
#include "readers/inspect.h"
#include "readers/view_record.h"

namespace millrace::readers::internal {

// The facts about the features of many records. Thread-compatible.
class FeatureTable {
 public:
  // Features beyond `max_features` are counted alone.
  explicit FeatureTable(size_t max_features) : max_features_(max_features) {}

  // False: `payload` is no Example, and nothing was added.
  bool AddExample(std::string_view payload);
  // Adds the values of one record.
  void Add(const NamedValues& values, Widening widening);

  // By key. Nothing can be added afterwards.
  std::vector<FeatureReport> Take();
  uint64_t num_unfollowed() const { return num_unfollowed_; }

 private:
  // Null: it is one too many.
  FeatureReport* Find(std::string_view key);

  const size_t max_features_;
  uint64_t num_unfollowed_ = 0;
  std::map<std::string, FeatureReport, std::less<>> reports_;
};

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_TOOLS_FEATURE_TABLE_H_
