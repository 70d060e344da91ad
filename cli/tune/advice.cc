#include "cli/tune/advice.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/plan_view.h"

namespace millrace::cli {
namespace {

struct Rule {
  std::string_view op;
  std::string_view unless;  // a part of the stage's options with which the rule says nothing
  std::string_view advice;
};

constexpr Rule kRules[] = {
    {"global_shuffle", "block_bytes",
     "block_bytes: reads blocks of records, which are mixed within windows"},
    {"decode_image", "dct_downscale: true",
     "dct_downscale: true: decodes JPEGs smaller where they are made small anyway"},
    {"decode_image", "fast_dct: true", "fast_dct: true: a less accurate inverse transform"},
    {"random_resized_crop", "", "a smaller height and width: less work, and smaller batches"},
    {"resize", "", "a smaller height and width: less work, and smaller batches"},
    {"normalize", "",
     "cast to FLOAT16 behind it: half the bytes; or no normalize, and uint8 batches"},
};

}  // namespace

std::vector<std::string> AdviceFor(const pipeline::Plan& plan) {
  std::vector<std::string> advice;
  for (const pipeline::StageView& stage : pipeline::StagesOf(plan)) {
    for (const Rule& rule : kRules) {
      const bool has_it =
          !rule.unless.empty() && stage.options.find(rule.unless) != std::string::npos;
      if (stage.op != rule.op || has_it) continue;
      advice.push_back(absl::StrCat(stage.name, ": ", ToAbsl(rule.advice)));
    }
  }
  return advice;
}

}  // namespace millrace::cli
