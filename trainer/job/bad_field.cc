#include "trainer/job/bad_field.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace millrace::trainer {

std::string BadField::name() const {
  std::string name;
  for (const pipeline::FieldStep& step : path) {
    absl::StrAppend(&name, name.empty() ? "" : ".", std::string(step.field));
    if (step.index >= 0) absl::StrAppend(&name, "[", step.index, "]");
  }
  return name;
}

absl::Status ErrorAt(const pipeline::TextLocations& places, const BadField& bad) {
  return absl::InvalidArgumentError(
      absl::StrCat(places.At(bad.path), ": ", bad.name(), ": ", bad.why));
}

void FieldChecks::Require(bool good, Path path, const std::string& why) {
  if (!good && !first_) first_ = BadField{path, why};
}

void FieldChecks::AtLeastZero(double value, Path path) {
  Require(std::isfinite(value) && value >= 0, path, absl::StrCat(value, " must be 0 or more"));
}

void FieldChecks::AboveZero(double value, Path path) {
  Require(std::isfinite(value) && value > 0, path, absl::StrCat(value, " must be over 0"));
}

void FieldChecks::BelowOne(double value, Path path) {
  Require(value >= 0 && value < 1, path, absl::StrCat(value, " must be in [0, 1)"));
}

}  // namespace millrace::trainer
