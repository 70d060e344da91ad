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

  std::string file;
  std::string out;  // the file that was written; empty: none
  Settings before;  // as the plan says
  Defaults defaults;
  TuneLimits limits;
  TuneResult result;
  std::vector<Diagnosed> diagnosed;  // the settings of the beginning, and those after each change
  double seconds = 0;
  std::vector<std::string> advice;
  // Variables of the command line that stand for a number that was changed: their values now.
  std::map<std::string, std::string> variables;
};

// The changes of the plan, each with the comment that stands on its line: "was 2: +31 %, measured
// 4 x".
std::vector<pipeline::FieldChange> ChangesOf(const TuneReport& report);

// Print on standard output.
void PrintTuneText(const TuneReport& report);
void PrintTuneJson(const TuneReport& report);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_REPORT_H_
