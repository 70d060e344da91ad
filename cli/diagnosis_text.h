#ifndef MILLRACE_CLI_DIAGNOSIS_TEXT_H_
#define MILLRACE_CLI_DIAGNOSIS_TEXT_H_

#include <string>

#include "pipeline/diagnosis.h"

namespace millrace::cli {

// Returns the diagnosis as one JSON object: that of `millrace run --json`.
std::string DiagnosisText(const pipeline::Diagnosis& diagnosis);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_DIAGNOSIS_TEXT_H_
