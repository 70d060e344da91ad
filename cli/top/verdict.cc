#include "cli/top/verdict.h"

#include <utility>

namespace millrace::cli {

Verdict VerdictOf(const Snapshot& difference) {
  if (difference.ranks.empty()) return {"opening", {}};
  const RankSnapshot& rank = difference.ranks[0];
  pipeline::DiagnosisOptions options = rank.options;
  options.pace = difference.asked_samples_per_second;
  options.fetched_bytes = rank.fetched_bytes;
  pipeline::Diagnosis diagnosis = pipeline::Diagnose(rank.profile, rank.host, options);
  return {std::move(diagnosis.sentence), std::move(diagnosis.what_ifs)};
}

}  // namespace millrace::cli
