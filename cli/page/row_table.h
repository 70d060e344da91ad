#ifndef MILLRACE_CLI_PAGE_ROW_TABLE_H_
#define MILLRACE_CLI_PAGE_ROW_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "augment/vocabulary.h"
#include "base/schema.h"
#include "pipeline/batch.h"
#include "pipeline/plan.h"

namespace millrace::cli {

// Batches of numbers and text on a page: a table with a column per field, in which the numbers of
// tokens stand beside their words, and a histogram of each field of numbers. All text from data or
// the plan is escaped. Immutable.
class RowTable {
 public:
  // `fields` are those of the plan's batches.
  RowTable(const pipeline::Plan& plan, const Schema& fields);

  // The table is Begin, a Row per sample, and End.
  std::string Begin(const pipeline::Batch& batch) const;
  // `from` says where the sample comes from.
  std::string Row(const pipeline::Batch& batch, int64_t row, std::string_view from) const;
  // With the histograms of all valid rows of the batch.
  std::string End(const pipeline::Batch& batch) const;

 private:
  struct Words {
    std::shared_ptr<const augment::Vocabulary> vocabulary;
    std::vector<std::string_view> tokens;  // by number
  };

  std::string Cell(const pipeline::Batch& batch, size_t tensor, int64_t row) const;
  // "" for a field that is no number.
  std::string HistogramOf(const pipeline::Batch& batch, size_t tensor) const;
  // The lengths of a field whose rows differ in them; "" for others.
  std::string LengthsOf(const pipeline::Batch& batch, size_t tensor) const;

  std::map<std::string, Words> words_;  // of fields that a vocabulary makes
};

// True if tensor `name` says where the rows of another one begin.
bool IsSplits(const pipeline::Batch& batch, const std::string& name);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PAGE_ROW_TABLE_H_
