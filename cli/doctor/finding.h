#ifndef MILLRACE_CLI_DOCTOR_FINDING_H_
#define MILLRACE_CLI_DOCTOR_FINDING_H_

#include <string>
#include <utility>
#include <vector>

namespace millrace::cli::doctor {

enum class Verdict {
  kOk,
  kWarn,  // Millrace runs, but slower than it could, or not in every way
  kFail,  // a part of the machine that is there does not work
  kSkip,  // there is nothing to look at, or it cannot be looked at
};

struct Number {
  std::string name;  // with its unit: "bytes_per_second"
  double value = 0;
};

// The outcome of a check: a line of the output.
struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string what;   // the check, and of several things which: "pcie 0"
  std::string found;  // one sentence without its full stop
  std::string mend;   // the command or setting that mends it, or tells more; empty: none
  std::vector<std::string> details = {};  // further lines, such as those of a matrix
  std::vector<Number> numbers = {};       // for --json
};
using Findings = std::vector<Finding>;

inline Finding Fine(std::string what, std::string found) {
  return {Verdict::kOk, std::move(what), std::move(found), ""};
}
inline Finding Warned(std::string what, std::string found, std::string mend) {
  return {Verdict::kWarn, std::move(what), std::move(found), std::move(mend)};
}
inline Finding Failed(std::string what, std::string found, std::string mend) {
  return {Verdict::kFail, std::move(what), std::move(found), std::move(mend)};
}
inline Finding Skipped(std::string what, std::string why, std::string mend = "") {
  return {Verdict::kSkip, std::move(what), std::move(why), std::move(mend)};
}

}  // namespace millrace::cli::doctor

#endif  // MILLRACE_CLI_DOCTOR_FINDING_H_
