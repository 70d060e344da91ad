#ifndef MILLRACE_CLI_DIAGNOSE_DIAGNOSIS_JSON_H_
#define MILLRACE_CLI_DIAGNOSE_DIAGNOSIS_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "pipeline/diagnosis.h"

namespace millrace::cli {

// All numbers of a diagnosis; those that are not known are null.
nlohmann::ordered_json DiagnosisJson(const pipeline::Diagnosis& diagnosis);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_DIAGNOSE_DIAGNOSIS_JSON_H_
