#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/bytes_text.h"
#include "pipeline/diagnosis.h"
#include "pipeline/diagnosis/parts.h"
#include "pipeline/diagnosis/sentence.h"

// The screen of a diagnosis.

namespace millrace::pipeline {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kNameColumns = 28;
// A run of rows is odd if a row of it took this many times as long as nearly all others in the op,
// and as others take in all ops.
constexpr double kOdd = 3;

// By WaitCause.
constexpr std::array<std::string_view, kNumWaitCauses> kCauses = {
    "work: all workers are busy", "reading: bytes of records",    "budget: room in memory",
    "order: one worker has it",   "ring: the last rows",          "workers: one to begin",
    "source: records to come",    "hand-off: the consumer wakes",
};

using Lines = std::vector<std::string>;

std::string Cut(std::string text, size_t columns) {
  if (text.size() <= columns) return text;
  text.resize(columns - 2);
  return text + "..";
}

// "812", "110.9K", "1.2M": a number in few columns.
std::string ShortNumber(std::optional<double> known) {
  if (!known.has_value()) return "-";
  constexpr std::string_view kUnits = " KMGTPE";
  size_t unit = 0;
  double number = *known;
  for (; number >= 999.95 && unit + 1 < kUnits.size(); ++unit) number /= 1000;
  return unit == 0 ? absl::StrFormat("%.0f", number)
                   : absl::StrFormat("%.1f%c", number, kUnits[unit]);
}

std::string Us(double us) { return us >= 99.95 ? RateText(us) : absl::StrFormat("%.1f", us); }

std::string Percents(double fraction) { return absl::StrFormat("%.1f%%", 100 * fraction); }

// Adds `text` in lines of at most 80 columns, each with one space in front.
void AddWrapped(const std::string& text, Lines& lines) {
  std::string line;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      lines.push_back(std::exchange(line, ""));
    }
    absl::StrAppend(&line, " ", word);
  }
  if (!line.empty()) lines.push_back(line);
}

void AddHead(const Diagnosis& diagnosis, Lines& lines) {
  std::string text = absl::StrCat(RateText(diagnosis.rate), " ", diagnosis.unit);
  if (diagnosis.pace.has_value()) {
    absl::StrAppendFormat(&text, "   asked %s   AU %.2f", RateText(*diagnosis.pace),
                          diagnosis.utilisation.value_or(0));
  }
  AddWrapped(absl::StrFormat("%s   %s (waits %.1f %%)", text, diagnosis.verdict,
                             100 * diagnosis.wait_fraction),
             lines);
}

// The lines of the part's name, with its summary where there is room for it.
Lines NameLines(const WorkPart& part) {
  const std::string whole = absl::StrCat(part.name, "  ", part.summary);
  if (!part.summary.empty() && whole.size() <= kNameColumns) return {whole};
  Lines lines = {""};
  for (const absl::string_view name : absl::StrSplit(part.name, '+')) {
    const std::string next = absl::StrCat(lines.back().empty() ? "" : "+", name);
    if (lines.back().size() + next.size() > kNameColumns) lines.emplace_back();
    lines.back() += Cut(next, kNameColumns);
  }
  return lines;
}

void AddPart(const WorkPart& part, Lines& lines) {
  const std::string p99 = part.is_op && part.p99_us > 0 ? Us(part.p99_us) : "-";
  const bool many = part.ceiling.value_or(0) >= 999'999.5;
  const std::string ceiling =
      many || !part.ceiling.has_value() ? ShortNumber(part.ceiling) : RateText(*part.ceiling);
  const Lines names = NameLines(part);
  for (size_t i = 0; i + 1 < names.size(); ++i) lines.push_back(" " + names[i]);
  lines.push_back(absl::StrFormat(" %-28s %8s %8s %6s %9s %7s %7s", names.back(), Us(part.us), p99,
                                  Percents(part.share), ceiling, ShortNumber(part.bytes_in),
                                  ShortNumber(part.bytes_out)));
}

void AddParts(const Diagnosis& diagnosis, Lines& lines) {
  lines.push_back(absl::StrFormat(" %-28s %8s %8s %6s %9s %7s %7s", "stage (CPU time per sample)",
                                  "us", "p99 us", "share", "a core/s", "in", "out"));
  double sum_us = 0;
  for (const WorkPart& part : diagnosis.parts) {
    sum_us += part.us;
    AddPart(part, lines);
  }
  lines.push_back(
      absl::StrFormat(" %-28s %8s   measured %s us", "sum", Us(sum_us), Us(diagnosis.measured_us)));
}

void AddWaits(const Diagnosis& diagnosis, Lines& lines) {
  const bool none = diagnosis.wait_fraction < 0.0005;
  lines.push_back(none ? " the consumer did not wait"
                       : absl::StrFormat(" the consumer waited %s of the time, for",
                                         Percents(diagnosis.wait_fraction)));
  for (size_t i = 0; i < kNumWaitCauses; ++i) {
    const double part = diagnosis.seconds > 0
                            ? 1e-9 * static_cast<double>(diagnosis.wait_ns[i]) / diagnosis.seconds
                            : 0;
    if (part < 0.0005) continue;
    const auto bar = static_cast<size_t>(std::clamp(std::round(40 * part), 0.0, 40.0));
    lines.push_back(
        absl::StrFormat("   %-28s %6s  %s", kCauses[i], Percents(part), std::string(bar, '#')));
  }
}

std::string Amount(Limit limit, double number, const std::string& unit) {
  switch (limit) {
    case Limit::kWorkers:
      return absl::StrFormat("%.2f cores", number);
    case Limit::kReading:
      return BytesText(number) + "/s";
    case Limit::kBudget:
      return BytesText(number);
    case Limit::kSerial:
      return Percents(number);
    default:
      return absl::StrCat(RateText(number), " ", unit);
  }
}

void AddResources(const Diagnosis& diagnosis, Lines& lines) {
  lines.push_back(absl::StrFormat(" %-16s %16s %16s  %s", "resource", "used", "of",
                                  "allows " + diagnosis.unit));
  for (const ResourceUse& use : diagnosis.resources) {
    const auto amount = [&](double number) { return Amount(use.limit, number, diagnosis.unit); };
    std::string allows = use.allows.has_value() ? RateText(*use.allows) : "-";
    if (use.at_least) allows += " or more";
    if (std::ranges::count(diagnosis.binding, use.limit) > 0) allows += "  <- binds";
    lines.push_back(absl::StrFormat(" %-16s %16s %16s  %s", LimitName(use.limit), amount(use.used),
                                    use.of.has_value() ? amount(*use.of) : "-", allows));
  }
}

std::string ByText(const WhatIf& what_if) {
  const std::string setting = what_if.setting.empty() ? "-" : what_if.setting;
  return what_if.at_least ? absl::StrCat(setting, ", or more") : setting;
}

void AddWhatIfs(const Diagnosis& diagnosis, Lines& lines) {
  lines.push_back(absl::StrFormat(" %-30s %10s %7s  %s", "what if", diagnosis.unit, "gain", "by"));
  for (const WhatIf& what_if : diagnosis.what_ifs) {
    lines.push_back(absl::StrFormat(" %-30s %10s %7s  %s", what_if.label, RateText(what_if.rate),
                                    absl::StrFormat("+%.0f %%", 100 * what_if.gain),
                                    ByText(what_if)));
  }
  lines.push_back(absl::StrFormat(" %d usable cores", static_cast<int>(diagnosis.cores)));
}

void AddOddFile(const Diagnosis& diagnosis, Lines& lines) {
  if (!diagnosis.slow_file.has_value()) return;
  const FileReads& file = *diagnosis.slow_file;
  const double reads = static_cast<double>(std::max<int64_t>(1, file.reads));
  AddWrapped(absl::StrFormat("odd: reads of %s take %.3g ms, %.3g at most; the median of the files "
                             "is %.3g ms",
                             file.file, 1e-6 * static_cast<double>(file.ns) / reads,
                             1e-6 * static_cast<double>(file.max_ns), diagnosis.median_file_ms),
             lines);
}

// The part with the row that took longest beside the others of its op.
void AddOddRow(const Diagnosis& diagnosis, Lines& lines) {
  const WorkPart* odd = nullptr;
  double most = kOdd;
  for (const WorkPart& part : diagnosis.parts) {
    const double us = 1e-3 * static_cast<double>(part.slowest.row_ns);
    const double usual = std::max(part.p99_us, diagnosis.measured_us);
    if (part.p99_us <= 0 || us < most * usual) continue;
    most = us / usual;
    odd = &part;
  }
  if (odd == nullptr) return;
  const SlowRows& rows = odd->slowest;
  const std::string place = rows.file.empty() ? absl::StrCat("sample ", rows.first.record)
                            : rows.record < 0
                                ? rows.file
                                : absl::StrCat("record ", rows.record, " of ", rows.file);
  const std::string more =
      rows.rows > 1 ? absl::StrCat(" and the ", rows.rows - 1, " samples behind it") : "";
  AddWrapped(absl::StrCat("odd: ", place, more, " took ",
                          Us(1e-3 * static_cast<double>(rows.row_ns)), " us each in ", odd->name),
             lines);
}

// "0.05 ms", "12 ms": three digits.
std::string Ms(double ms) { return absl::StrFormat("%.3g ms", ms); }

void AddConsumer(const Diagnosis& diagnosis, Lines& lines) {
  std::string text = absl::StrCat("consumer: ", Ms(diagnosis.consumer_ms), " between its calls");
  if (diagnosis.hand_over_us.has_value()) {
    absl::StrAppend(&text, ", ", Us(*diagnosis.hand_over_us), " us to take a batch that is ready");
  }
  AddWrapped(text, lines);
  if (!diagnosis.copies.has_value()) return;
  const CopyUse& copies = *diagnosis.copies;
  AddWrapped(absl::StrCat("copies to the device: ", BytesText(copies.bytes_per_second), "/s, ",
                          Us(copies.issue_us), " us to issue those of a batch, waits ",
                          Percents(copies.wait_fraction)),
             lines);
}

void AddReads(const Diagnosis& diagnosis, Lines& lines) {
  if (diagnosis.read_ms <= 0) return;
  std::string text =
      absl::StrFormat("reads: p50 %s, p99 %s, %.2f in flight", Ms(diagnosis.read_p50_ms),
                      Ms(diagnosis.read_p99_ms), diagnosis.reads_in_flight);
  if (diagnosis.cached.has_value()) {
    absl::StrAppend(&text, "; from the page cache: ", Percents(*diagnosis.cached));
  }
  AddWrapped(text, lines);
}

void AddHost(const Diagnosis& diagnosis, Lines& lines) {
  std::string text = absl::StrFormat("other programs: %.2f cores", diagnosis.other_cores);
  if (diagnosis.stolen_cores >= 0.005) {
    absl::StrAppendFormat(&text, "; other machines: %.2f", diagnosis.stolen_cores);
  }
  if (diagnosis.throttled >= 0.0005) {
    absl::StrAppend(&text, "; held back by a quota: ", Percents(diagnosis.throttled));
  }
  if (diagnosis.read_factor.value_or(0) >= kNotableReadFactor) {
    absl::StrAppendFormat(&text, "; bytes read: %.2f x the records'", *diagnosis.read_factor);
  }
  AddWrapped(text, lines);
  AddWrapped(absl::StrFormat("context switches a second: %s of threads that wait, %s forced",
                             RateText(diagnosis.switches), RateText(diagnosis.preemptions)),
             lines);
}

}  // namespace

std::vector<std::string> FormatDiagnosis(const std::string& title, const Diagnosis& diagnosis) {
  Lines lines = {Cut(title, kColumns)};
  AddHead(diagnosis, lines);
  for (const auto& add : {AddParts, AddWaits, AddResources, AddWhatIfs}) {
    lines.emplace_back();
    add(diagnosis, lines);
  }
  AddConsumer(diagnosis, lines);
  AddReads(diagnosis, lines);
  AddHost(diagnosis, lines);
  AddOddFile(diagnosis, lines);
  AddOddRow(diagnosis, lines);
  lines.emplace_back();
  AddWrapped(diagnosis.sentence, lines);
  return lines;
}

}  // namespace millrace::pipeline
