#ifndef MILLRACE_CLI_TUNE_REPORT_H_
#define MILLRACE_CLI_TUNE_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "cli/tune/search.h"
#include "pipeline/diagnosis.h"
#include "pipeline/edit_plan.h"

// The report of `millrace tune` on its search.

namespace millrace::cli {

struct TuneReport {
  // Settings that the search went through, each with the diagnosis of its first turns.
  struct Diagnosed {
    Settings settings;
    pipeline::Diagnosis diagnosis;
  };

  std::string file;  // the plan, or the job
  std::string out;   // the file that was written; empty: none
  // Of a job.
  std::string plan_file;  // its plan; empty: `file` is a plan
  std::string plan_out;   // the plan that was written; empty: none
  // Its name in the job, and the name that the job has for the plan; empty: they stay the same.
  std::string train;
  std::string train_before;
  int compute_threads = 0;  // which no setting changes
  Settings before;          // as the files say
  Defaults defaults;
  TuneLimits limits;
  TuneResult result;
  std::vector<Diagnosed> diagnosed;  // the settings of the beginning, and those after each change
  double seconds = 0;
  std::vector<std::string> advice;
  // Variables of the command line that stand for a number that was changed: their values now.
  std::map<std::string, std::string> variables;
};

enum class TunedFile { kPlan, kJob };

// The changes of one of the files, each with the comment that stands on its line: "was 2: +31 %,
// measured 4 x". There are none of a job where a plan was tuned. The plan's new name is one of a
// job.
std::vector<pipeline::FieldChange> ChangesOf(const TuneReport& report, TunedFile file);

// Print on standard output.
void PrintTuneText(const TuneReport& report);
void PrintTuneJson(const TuneReport& report);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_REPORT_H_
