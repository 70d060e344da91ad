#ifndef MILLRACE_READERS_EXAMPLE_VIEW_H_
#define MILLRACE_READERS_EXAMPLE_VIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::readers {

// The values of one feature; bytes are views into the record. monostate: no list was set.
using FeatureValues = std::variant<std::monostate, std::vector<std::string_view>,
                                   std::vector<float>, std::vector<int64_t>>;

// All features of one tf.train.Example by key, for people and tools that look at single records;
// pipelines use the op parse_example, which decodes only what it needs.
//   DATA_LOSS  `example` is not a valid message; the text says at which byte
absl::StatusOr<std::map<std::string, FeatureValues>> ViewExample(std::string_view example);

// The feature lists of one tf.train.SequenceExample by key, the values of each step; ViewExample
// gives its context. A plain Example has none.
//   DATA_LOSS  as ViewExample
absl::StatusOr<std::map<std::string, std::vector<FeatureValues>>> ViewFeatureLists(
    std::string_view example);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_EXAMPLE_VIEW_H_
