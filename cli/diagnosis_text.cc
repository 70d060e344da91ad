#include "cli/diagnosis_text.h"

#include <nlohmann/json.hpp>

#include "cli/diagnose/diagnosis_json.h"

namespace millrace::cli {

std::string DiagnosisText(const pipeline::Diagnosis& diagnosis) {
  return DiagnosisJson(diagnosis).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace millrace::cli
