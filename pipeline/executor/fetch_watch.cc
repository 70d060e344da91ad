#include "pipeline/executor/fetch_watch.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/metric_table.h"
#include "base/status.h"
#include "readers/http_options.h"

namespace millrace::pipeline {
namespace {

Counter* CounterOf(const readers::RecordSource& source, Context& context,
                   const CounterFamily& family) {
  return source.fetches().has_value() ? &context.metrics().counter(family) : nullptr;
}

std::vector<bool> UrlsOf(const readers::RecordSource& source) {
  std::vector<bool> is_url;
  for (const std::string& file : source.files()) is_url.push_back(readers::IsUrl(file));
  return is_url;
}

}  // namespace

FetchWatch::FetchWatch(const readers::RecordSource& source, Context& context)
    : source_(source),
      context_(context),
      kept_bytes_(source.fetches().value_or(readers::FetchFacts()).kept_bytes),
      is_url_(source.fetches().has_value() ? UrlsOf(source) : std::vector<bool>()),
      records_(CounterOf(source, context, metric::kFetchedRecordBytes)),
      fetched_(CounterOf(source, context, metric::kFetchedBytes)) {}

void FetchWatch::Read(const RunRecords& records) const {
  if (records_ == nullptr || records.alone || records.bytes() == 0) return;
  uint64_t bytes = 0;
  for (int64_t column = 0; column < records.columns; ++column) {
    for (const readers::RecordRef& ref : records.column_refs(column)) {
      if (is_url_[ref.shard]) bytes += source_.FramedBytes(ref);
    }
  }
  record_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void FetchWatch::Look() {
  if (records_ == nullptr) return;
  const uint64_t records = record_bytes_.load(std::memory_order_relaxed);
  const uint64_t fetched = std::max(source_.fetched_bytes(), told_fetched_);
  records_->Add(static_cast<int64_t>(records - told_records_));
  fetched_->Add(static_cast<int64_t>(fetched - told_fetched_));
  told_records_ = records;
  told_fetched_ = fetched;
  const double most =
      readers::kMostFetched * static_cast<double>(records) + static_cast<double>(kept_bytes_);
  if (warned_ || static_cast<double>(fetched) <= most) return;
  warned_ = true;
  context_.Log(LogLevel::kWarning,
               ToStd(absl::StrFormat(
                   "%s were fetched for %s of records, %.1f bytes for each: the order jumps "
                   "about in shards behind URLs (`millrace explain` says where)",
                   BytesText(static_cast<double>(fetched)), BytesText(static_cast<double>(records)),
                   static_cast<double>(fetched) / static_cast<double>(records))));
}

}  // namespace millrace::pipeline
