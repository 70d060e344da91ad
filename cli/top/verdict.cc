#include "cli/top/verdict.h"

#include "pipeline/diagnosis.h"

namespace millrace::cli {

std::string VerdictOf(const Snapshot& difference) {
  if (difference.ranks.empty()) return "opening";
  const RankSnapshot& rank = difference.ranks[0];
  pipeline::DiagnosisOptions options = rank.options;
  options.pace = difference.asked_samples_per_second;
  options.fetched_bytes = rank.fetched_bytes;
  return pipeline::Diagnose(rank.profile, rank.host, options).sentence;
}

}  // namespace millrace::cli
