#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/record_error.h"
#include "readers/text/csv_row.h"
#include "readers/text/json_record.h"
#include "tests/fuzz/fuzz_input.h"

// Records of text: a CSV row is cut into cells of its own bytes, and what is taken for a JSON
// object nlohmann's parser takes too.

namespace millrace::readers::internal {
namespace {

void Csv(std::string_view row, char delimiter) {
  RunArena arena(256);
  std::array<CsvCell, 8> cells;
  const auto count = SplitCsvRow(row, delimiter, arena, cells);
  if (!count.ok()) return;
  size_t bytes = 0;
  for (size_t i = 0; i < std::min(*count, cells.size()); ++i) bytes += cells[i].text.size();
  fuzz::Require(bytes <= row.size(), "cells hold no more than the row");
}

FeatureSpec Wanted(const std::string& key, DType dtype, Shape shape) {
  FeatureSpec spec;
  spec.key = key;
  spec.name = key;
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  return spec;
}

bool NlohmannTakes(std::string_view record) {
  try {
    return nlohmann::json::parse(record).is_object();
  } catch (const nlohmann::json::out_of_range&) {
    return true;  // a number that no double holds, which ours passes over where nobody wants it
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void Json(std::string_view record) {
  static const std::vector<FeatureSpec>* const features = new std::vector<FeatureSpec>{
      Wanted("i", DType::kI64, {}), Wanted("f", DType::kF32, {Shape::kUnknown}),
      Wanted("b", DType::kBytes, {}), Wanted("a.i", DType::kI64, {2})};
  static const JsonPaths* const paths = new JsonPaths(*features, /*allow_nan=*/true);
  RunArena arena(256);
  std::vector<RecordField> fields(features->size());
  if (!paths->Read(record, arena, fields).ok()) return;
  fuzz::Require(NlohmannTakes(record), "nlohmann takes it too");
}

}  // namespace
}  // namespace millrace::readers::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;  // NOLINT
  const uint8_t choice = fuzz::TakeByte(data, size);
  const fuzz::InputFile input(data, size);
  if ((choice & 1) != 0) {
    readers::internal::Json(input.text());
  } else {
    readers::internal::Csv(input.text(), (choice & 2) != 0 ? ',' : '\t');
  }
  return 0;
}
