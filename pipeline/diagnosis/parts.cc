#include "pipeline/diagnosis/parts.h"

#include <algorithm>
#include <array>
#include <string>

#include "pipeline/diagnosis/model.h"

namespace millrace::pipeline {
namespace {

// The items beside those that work on rows, whose time is that of the ops.
struct ItemText {
  ItemKind kind;
  const char* summary;
};
constexpr std::array<ItemText, 7> kItems = {{
    {ItemKind::kPlan, "order, records of rows"},
    {ItemKind::kSubmit, "reads begin"},
    {ItemKind::kOpen, "batches begin"},
    {ItemKind::kFinish, "ops over batches, damage"},
    {ItemKind::kScan, "pass 1: order"},
    {ItemKind::kExamine, "pass 1: ops"},
    {ItemKind::kSettle, "pass 1: closes batches"},
}};

// The units of a table over one stretch.
struct Units {
  double us_per_ns = 0;  // processor microseconds per sample of a nanosecond of all workers
  double busy_ns = 0;
};

WorkPart PartOf(std::string name, std::string summary, int64_t busy_ns, const Units& units) {
  WorkPart part;
  part.name = std::move(name);
  part.summary = std::move(summary);
  const double ns = Sane(static_cast<double>(busy_ns));
  part.us = Sane(ns * units.us_per_ns);
  part.share = std::min(1.0, Ratio(ns, units.busy_ns));
  if (part.us > 0) part.ceiling = 1e6 / part.us;
  return part;
}

std::optional<double> PerRow(int64_t bytes, int64_t rows) {
  if (rows <= 0) return std::nullopt;
  return Ratio(static_cast<double>(bytes), static_cast<double>(rows));
}

// "resize+flip+normalize" of "resize+flip+normalize: image -> image: float32[28, 28, 1]", which
// several stages run as; else the stage's name.
std::string NameOf(const OpProfile& op) {
  const std::string head = op.summary.substr(0, op.summary.find(": "));
  const bool is_name = head.size() < op.summary.size() && head.find(' ') == std::string::npos;
  return is_name ? head : op.stage;
}

WorkPart PartOfOp(const OpProfile& op, const Units& units) {
  WorkPart part = PartOf(NameOf(op), op.summary, op.busy_ns, units);
  part.is_op = true;
  part.p99_us = 1e-3 * static_cast<double>(op.row_ns.Quantile(0.99));
  part.bytes_in = PerRow(op.bytes_in, op.weighed_rows);
  part.bytes_out = PerRow(op.bytes_out, op.weighed_rows);
  part.slowest = op.slowest;
  return part;
}

}  // namespace

std::vector<WorkPart> PartsOf(const PipelineProfile& profile) {
  Units units;
  units.busy_ns = Sane(static_cast<double>(profile.busy_ns));
  units.us_per_ns = 1e-3 * Ratio(ProcessorShare(profile), WorkedSamples(profile));
  std::vector<WorkPart> parts;
  int64_t rest_ns = profile.busy_ns;
  for (const OpProfile& op : profile.ops) {
    parts.push_back(PartOfOp(op, units));
    rest_ns -= op.busy_ns;
  }
  for (const ItemText& item : kItems) {
    const ItemTimes& times = profile.items[static_cast<size_t>(item.kind)];
    if (times.items <= 0 && times.busy_ns <= 0) continue;
    parts.push_back(
        PartOf(std::string(ItemKindName(item.kind)), item.summary, times.busy_ns, units));
    rest_ns -= times.busy_ns;
  }
  parts.push_back(PartOf(std::string(kNotAttributed), "", rest_ns, units));
  parts.back().ceiling.reset();
  return parts;
}

const WorkPart* LargestPart(const std::vector<WorkPart>& parts) {
  const auto less = [](const WorkPart& a, const WorkPart& b) { return a.share < b.share; };
  if (parts.size() < 2) return nullptr;
  const auto most = std::max_element(parts.begin(), parts.end() - 1, less);
  return most->share > 0 ? &*most : nullptr;
}

}  // namespace millrace::pipeline
