#ifndef MILLRACE_TESTS_COLLECTIVES_MISSING_RANKS_H_
#define MILLRACE_TESTS_COLLECTIVES_MISSING_RANKS_H_

#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace millrace::collectives {

// True if `outcome` names `rank` among those that did not come. Ranks that a loaded machine has
// kept from coming are named, too.
inline bool NamesAsMissing(const absl::Status& outcome, int rank) {
  absl::string_view text = outcome.message();
  const size_t end = text.rfind(" did not come");
  if (end == absl::string_view::npos) return false;
  text = text.substr(0, end);
  const size_t begin = text.rfind("rank");
  if (begin == absl::string_view::npos) return false;
  text = text.substr(begin);
  for (absl::string_view name : absl::StrSplit(text, absl::ByAnyChar(" ,"))) {
    if (name == absl::StrCat(rank)) return true;
  }
  return false;
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_MISSING_RANKS_H_
