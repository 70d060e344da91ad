#include "base/metric_table.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::metric {
namespace {

constexpr std::string_view kBegin = "<!-- metrics -->\n";
constexpr std::string_view kEnd = "<!-- end of metrics -->\n";

constexpr Row RowOf(const CounterFamily& family) { return {&family, "counter", false}; }
constexpr Row RowOf(const HistogramFamily& family) { return {&family, "histogram", false}; }
constexpr Row RowOf(const GaugeFamily& family) { return {&family, "gauge", family.shows_highest}; }

// In the order of the page, and of the header.
constexpr Row kRows[] = {
    // Batches and their samples.
    RowOf(kBatches),
    RowOf(kRecordsRead),
    RowOf(kRecordsExamined),
    RowOf(kRecordsBad),
    RowOf(kRecordsDamaged),
    // Reading.
    RowOf(kBytesRead),
    RowOf(kFetchedBytes),
    RowOf(kFetchedRecordBytes),
    RowOf(kReadsOverdue),
    RowOf(kReadsOverdueNow),
    RowOf(kReadGroups),
    RowOf(kReadGroupSeconds),
    RowOf(kReadRequests),
    // Work and waits.
    RowOf(kWorkSeconds),
    RowOf(kConsumerWaits),
    RowOf(kConsumerWaitSeconds),
    RowOf(kWaitCauseSeconds),
    RowOf(kHandOvers),
    RowOf(kHandOverSeconds),
    RowOf(kWorkerSeconds),
    RowOf(kStageSeconds),
    RowOf(kWorkerTarget),
    RowOf(kRingTarget),
    RowOf(kMemoryReserved),
    // The process.
    RowOf(kStorageReadBytes),
    RowOf(kCallReadBytes),
    RowOf(kContextSwitches),
    // Training.
    RowOf(kTrainSteps),
    RowOf(kTrainSkippedSteps),
    RowOf(kTrainSamples),
    RowOf(kTrainStepSeconds),
    RowOf(kTrainDataWait),
    RowOf(kTrainStep),
    RowOf(kTrainEpoch),
    RowOf(kTrainLoss),
    RowOf(kTrainGeneratorLoss),
    RowOf(kTrainLearningRate),
    RowOf(kTrainGradientNorm),
    RowOf(kEvaluationLoss),
    RowOf(kEvaluationAccuracy),
    RowOf(kEvaluationError),
    RowOf(kRanksLost),
};

std::string LineOf(const Row& row) {
  const MetricFamily& family = *row.family;
  const std::string label =
      family.label.empty() ? "" : absl::StrCat("`", ToAbsl(family.label), "`");
  return absl::StrCat("| `", ToAbsl(family.name), "` | ", ToAbsl(row.type),
                      row.shows_highest ? ", `_max`" : "", " | ", ToAbsl(family.unit), " | ", label,
                      " | ", ToAbsl(family.help), " |\n");
}

}  // namespace

std::span<const Row> Table() { return kRows; }

absl::StatusOr<std::string> WithTable(std::string_view markdown) {
  const size_t begin = markdown.find(kBegin);
  const size_t end = markdown.find(kEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return absl::InvalidArgumentError("the page has no table of metrics between its two marks");
  }
  std::string page(markdown.substr(0, begin + kBegin.size()));
  page += "| name | type | unit | label | counts |\n| --- | --- | --- | --- | --- |\n";
  for (const Row& row : kRows) page += LineOf(row);
  page += markdown.substr(end);
  return page;
}

}  // namespace millrace::metric
