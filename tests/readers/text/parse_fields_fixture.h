#ifndef MILLRACE_TESTS_READERS_TEXT_PARSE_FIELDS_FIXTURE_H_
#define MILLRACE_TESTS_READERS_TEXT_PARSE_FIELDS_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/record_error.h"
#include "readers/parse_fields.h"

// Parses records of text as the rows of one run.

namespace millrace::readers {

inline FeatureSpec Want(std::string key, DType dtype, Shape shape = {}) {
  FeatureSpec spec;
  spec.name = key;
  spec.key = std::move(key);
  spec.dtype = dtype;
  spec.shape = shape;
  return spec;
}

class ParseFieldsTest : public testing::Test {
 protected:
  void Parse(ParseFieldsOptions options, std::vector<std::string> records) {
    records_ = std::move(records);
    auto op = MakeParseFields(std::move(options));
    ASSERT_TRUE(op.ok()) << op.status();
    op_ = *std::move(op);
    ASSERT_TRUE(op_->Resolve(Schema({{"record", DType::kBytes, {Shape::kUnknown}}})).ok());
    run_.emplace(arena_, 1, 100, std::vector<SampleId>(records_.size()));
    Column& column = run_->Add("record", DType::kBytes);
    for (size_t i = 0; i < records_.size(); ++i) {
      column.Set(static_cast<int64_t>(i), records_[i].data(),
                 {static_cast<int64_t>(records_[i].size())});
    }
    op_->Apply(*run_);
  }

  std::vector<int64_t> Ints(std::string_view name, int64_t row = 0) {
    const auto values = run_->Get(name).at(row).as<int64_t>();
    return {values.begin(), values.end()};
  }
  std::vector<float> Floats(std::string_view name, int64_t row = 0) {
    const auto values = run_->Get(name).at(row).as<float>();
    return {values.begin(), values.end()};
  }
  std::string Bytes(std::string_view name, int64_t row = 0) {
    return std::string(run_->Get(name).bytes(row));
  }

  // The error of a row that failed so.
  absl::Status Failure(int64_t row, RecordErrorReason reason) {
    const absl::Status status = run_->status(row);
    EXPECT_EQ(status.code(), reason == RecordErrorReason::kExample
                                 ? absl::StatusCode::kDataLoss
                                 : absl::StatusCode::kInvalidArgument)
        << "row " << row;
    const auto error = GetRecordError(status);
    EXPECT_TRUE(error.has_value()) << status;
    if (!error.has_value()) return status;
    EXPECT_EQ(error->reason, reason);
    EXPECT_EQ(error->position, 100 + row);
    return status;
  }

  // `count` copies of `whole`, each with bytes changed, cut out or put in.
  static std::vector<std::string> Damaged(const std::string& whole, std::string_view alphabet,
                                          int count) {
    std::mt19937_64 random(7);
    std::vector<std::string> records;
    for (int i = 0; i < count; ++i) {
      std::string record = whole;
      for (uint64_t n = 1 + random() % 3; n > 0; --n) {
        const size_t at = random() % (record.size() + 1);
        const char c =
            random() % 8 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
        switch (random() % 3) {
          case 0:
            record.erase(at, random() % 4);
            break;
          case 1:
            record.insert(at, 1, c);
            break;
          default:
            if (at < record.size()) record[at] = c;
        }
        if (record.empty()) record = whole;
      }
      records.push_back(std::move(record));
    }
    return records;
  }

  RunArena arena_;
  std::vector<std::string> records_;
  std::unique_ptr<Op> op_;
  std::optional<millrace::Run> run_;
};

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_TEXT_PARSE_FIELDS_FIXTURE_H_
