#ifndef MILLRACE_CLI_DOCTOR_REPORT_H_
#define MILLRACE_CLI_DOCTOR_REPORT_H_

#include <string>

#include "cli/doctor/finding.h"

namespace millrace::cli::doctor {

struct Counts {
  int ok = 0;
  int warnings = 0;
  int failures = 0;
  int skipped = 0;
};
Counts Count(const Findings& findings);

// A line for each finding, wrapped at 100 columns, below it those of its details and its mend, and
// the counts at the end.
std::string FindingsText(const Findings& findings);

// One JSON object on one line: {"ok", "warnings", "failures", "skipped", "checks": [{"verdict",
// "check", "finding", "mend", "details", "numbers"}]}.
std::string FindingsJson(const Findings& findings);

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_REPORT_H_
