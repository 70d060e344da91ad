#include "cli/flag_checks.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace millrace::cli {
namespace {

// The description would only repeat in --help what the flag's own text says.
CLI::Validator MakeValidator(std::function<std::string(std::string&)> check) {
  return CLI::Validator(std::move(check), /*validator_desc=*/"");
}

}  // namespace

CLI::Validator Whole(uint64_t low, uint64_t high) {
  return MakeValidator([low, high](std::string& text) -> std::string {
    uint64_t value = 0;
    if (absl::SimpleAtoi(text, &value) && value >= low && value <= high) return "";
    if (high == std::numeric_limits<uint64_t>::max()) {
      return absl::StrCat("\"", text, "\" is not a whole number from ", low);
    }
    return absl::StrCat("\"", text, "\" is not a whole number from ", low, " to ", high);
  });
}

CLI::Validator Finite(double low, double high) {
  return MakeValidator([low, high](std::string& text) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && std::isfinite(value) && value >= low && value <= high) {
      return "";
    }
    return absl::StrCat("\"", text, "\" is not a number from ", low, " to ", high);
  });
}

}  // namespace millrace::cli
