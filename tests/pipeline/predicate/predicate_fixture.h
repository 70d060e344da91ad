#ifndef MILLRACE_TESTS_PIPELINE_PREDICATE_PREDICATE_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_PREDICATE_PREDICATE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "pipeline/predicate.h"

// Rows that predicates judge.

namespace millrace::pipeline {

// A value of a field: bytes, or numbers that are stored in the field's dtype.
using Value = std::variant<std::string, std::vector<int64_t>, std::vector<double>>;

template <typename T>
void Store(const std::vector<double>& from, void* out) {
  for (size_t i = 0; i < from.size(); ++i) static_cast<T*>(out)[i] = static_cast<T>(from[i]);
}
template <typename T>
void Store(const std::vector<int64_t>& from, void* out) {
  for (size_t i = 0; i < from.size(); ++i) static_cast<T*>(out)[i] = static_cast<T>(from[i]);
}

// Rows of fields for predicates to look at.
class Table {
 public:
  Table(Schema schema, std::vector<std::map<std::string, Value>> rows)
      : schema_(std::move(schema)),
        rows_(std::move(rows)),
        run_(arena_, 1, 100, std::vector<SampleId>(rows_.size())) {
    for (const Field& field : schema_.fields()) {
      run_.Add(field.name, field.dtype);
      for (size_t row = 0; row < rows_.size(); ++row) Put(field, static_cast<int64_t>(row));
    }
  }

  // One letter a row: 'y', 'n', or '!' for a row that failed.
  std::string Evaluate(std::string_view text) {
    auto predicate = Predicate::Parse(text);
    EXPECT_TRUE(predicate.ok()) << predicate.status();
    if (!predicate.ok()) return "";
    const absl::Status status = predicate->Resolve(schema_);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return "";
    std::vector<int64_t> all(rows_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    millrace::Run run = run_.Select(all, std::vector<SampleId>(all.size()));
    std::vector<uint8_t> keep(all.size(), 7);
    predicate->Evaluate(run, keep);
    std::string outcome;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool ok = run.ok(all[i]);
      outcome += !ok ? '!' : keep[i] == 1 ? 'y' : keep[i] == 0 ? 'n' : '?';
      if (!ok) last_error_ = run.status(all[i]);
    }
    return outcome;
  }
  absl::Status ResolveError(std::string_view text) const {
    auto predicate = Predicate::Parse(text);
    EXPECT_TRUE(predicate.ok()) << predicate.status();
    return predicate->Resolve(schema_);
  }
  const absl::Status& last_error() const { return last_error_; }

 private:
  void Put(const Field& field, int64_t row) {
    Column& column = const_cast<Column&>(run_.Get(field.name));
    const Value& value = rows_[row].at(field.name);
    if (const auto* bytes = std::get_if<std::string>(&value)) {
      column.Set(row, bytes->data(), {static_cast<int64_t>(bytes->size())});
      return;
    }
    std::visit(
        [&](const auto& numbers) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(numbers)>, std::string>) {
            Shape shape = field.shape;
            if (!shape.IsKnown()) shape = {static_cast<int64_t>(numbers.size())};
            StoreAs(field.dtype, numbers, run_.Allocate(column, row, shape));
          }
        },
        value);
  }
  template <typename Numbers>
  static void StoreAs(DType dtype, const Numbers& numbers, void* out) {
    if (dtype == DType::kU8) return Store<uint8_t>(numbers, out);
    if (dtype == DType::kI32) return Store<int32_t>(numbers, out);
    if (dtype == DType::kI64) return Store<int64_t>(numbers, out);
    if (dtype == DType::kF32) return Store<float>(numbers, out);
    if (dtype == DType::kF64) return Store<double>(numbers, out);
    Store<uint16_t>(numbers, out);  // the bits of the half types
  }

  const Schema schema_;
  const std::vector<std::map<std::string, Value>> rows_;
  RunArena arena_;
  millrace::Run run_;
  absl::Status last_error_;
};

inline std::vector<int64_t> Ints(std::vector<int64_t> values) { return values; }
inline std::vector<double> Floats(std::vector<double> values) { return values; }

// Rows with x = 0, 1, 2, ...
inline Table Counting(int64_t rows) {
  std::vector<std::map<std::string, Value>> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back({{"x", Ints({i})}});
  return Table(Schema({{"x", DType::kI64, {}}}), std::move(values));
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_PREDICATE_PREDICATE_FIXTURE_H_
