#include "pipeline/diagnosis/sentence.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/number_text.h"
#include "pipeline/diagnosis/parts.h"
#include "pipeline/diagnosis/what_if.h"

namespace millrace::pipeline {
namespace {

// From this number of cores on, other programs are worth a mention.
constexpr double kNotableCores = 0.2;

std::string Percent(double fraction) { return absl::StrFormat("%.0f %%", 100 * fraction); }

std::string Rate(const Diagnosis& diagnosis, double rate) {
  return absl::StrCat(RateText(rate), " ", diagnosis.unit);
}

std::string CoresText(const Diagnosis& diagnosis) {
  const int cores = std::max(1, static_cast<int>(diagnosis.cores));
  const int threads = diagnosis.threads;
  if (threads > cores) {
    return absl::StrCat(threads, " threads on ", cores, cores == 1 ? " core" : " cores");
  }
  if (threads < cores) {
    return absl::StrCat(threads, " of ", cores, threads == 1 ? " cores is" : " cores are",
                        " the pipeline's");
  }
  return cores == 1 ? "the only core is the pipeline's"
                    : absl::StrCat("all ", cores, " cores are the pipeline's");
}

std::string OthersText(const Diagnosis& diagnosis) {
  std::string text;
  if (diagnosis.other_cores >= kNotableCores) {
    absl::StrAppendFormat(&text, "; other programs take %.1f", diagnosis.other_cores);
  }
  if (diagnosis.stolen_cores >= kNotableCores) {
    absl::StrAppendFormat(&text, "; other machines take %.1f", diagnosis.stolen_cores);
  }
  if (diagnosis.throttled >= 0.05) {
    absl::StrAppend(&text, "; the cgroup's quota holds threads back ", Percent(diagnosis.throttled),
                    " of the time");
  }
  return text;
}

std::string WorkersText(const Diagnosis& diagnosis) {
  const std::string cores = CoresText(diagnosis) + OthersText(diagnosis);
  const WorkPart* const part = LargestPart(diagnosis.parts);
  if (part == nullptr) return absl::StrCat("CPU (", cores, ")");
  return absl::StrCat("CPU in ", part->is_op ? "" : "the executor's part ", part->name, " (",
                      Percent(part->share), " of pipeline time; ", cores, ")");
}

// The last component of a path or URL.
std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string ReadingText(const Diagnosis& diagnosis) {
  if (diagnosis.slow_file.has_value()) {
    const FileReads& file = *diagnosis.slow_file;
    return absl::StrFormat(
        "reading %s (%.3g ms a read; the median of the files is %.3g ms)", BaseName(file.file),
        1e-6 * static_cast<double>(file.ns) / static_cast<double>(std::max<int64_t>(1, file.reads)),
        diagnosis.median_file_ms);
  }
  if (diagnosis.latency) {
    return absl::StrFormat("the latency of reads (%.3g ms each, %.1f under way)", diagnosis.read_ms,
                           diagnosis.reads_under_way);
  }
  std::string text = absl::StrCat("reading (", BytesText(diagnosis.resources[1].used), "/s");
  if (diagnosis.read_factor.value_or(1) >= kNotableReadFactor) {
    absl::StrAppendFormat(&text, ", %.1f x the records' bytes", *diagnosis.read_factor);
  }
  return text + ")";
}

std::string BudgetText(const Diagnosis& diagnosis) {
  const ResourceUse& budget = diagnosis.resources[2];
  const double limit = budget.of.value_or(0);
  if (diagnosis.held_bytes >= limit / 4) {
    return absl::StrCat("the memory budget: the consumer holds ", BytesText(diagnosis.held_bytes),
                        " of ", BytesText(limit));
  }
  return absl::StrCat("the memory budget (", BytesText(budget.used), " of ", BytesText(limit),
                      " was in use)");
}

// The limit, as the object of "bound by".
std::string LimitText(const Diagnosis& diagnosis, Limit limit) {
  switch (limit) {
    case Limit::kWorkers:
      return WorkersText(diagnosis);
    case Limit::kReading:
      return ReadingText(diagnosis);
    case Limit::kBudget:
      return BudgetText(diagnosis);
    case Limit::kSerial:
      return absl::StrCat("the order of the samples, which one thread at a time works out (",
                          Percent(diagnosis.resources[3].used), " of the time)");
    case Limit::kConsumer:
      return absl::StrCat("the consumer (",
                          Rate(diagnosis, diagnosis.resources[4].allows.value_or(diagnosis.rate)),
                          ")");
    case Limit::kRing:
      return absl::StrCat("the number of open batches (", diagnosis.ring,
                          "): workers may not begin a later one");
    case Limit::kStart:
      return OthersText(diagnosis).empty()
                 ? "the start of workers, which have little to do for a batch"
                 : "the start of workers, for others have the processors" + OthersText(diagnosis);
    case Limit::kHandOff:
      return absl::StrCat("the hand-over of ", RateText(diagnosis.batches_per_second),
                          " batches a second");
    case Limit::kSource:
      return "the source, to which too few records are pushed";
  }
  return "";
}

std::string BindingText(const Diagnosis& diagnosis) {
  std::string text = "bound by " + LimitText(diagnosis, diagnosis.binding[0]);
  if (diagnosis.binding.size() > 1) {
    absl::StrAppend(&text, ", and nearly as much by ", LimitText(diagnosis, diagnosis.binding[1]));
  }
  return text + ".";
}

// The subject of "would give about".
std::string SubjectOf(const WhatIf& what_if) {
  if (!what_if.setting.empty()) return what_if.setting;
  switch (what_if.kind) {
    case WhatIf::Kind::kThreads:
      return "A worker more";
    case WhatIf::Kind::kMoreCores:
      return "One more core";
    case WhatIf::Kind::kFasterStorage:
      return "Storage that is twice as fast";
    case WhatIf::Kind::kFewerBytes:
      return "Reading no more than the records (see `fetch` and `inflate` in millrace explain)";
    case WhatIf::Kind::kWithoutFile:
      return "A copy of this file on storage like that of the others";
    case WhatIf::Kind::kLargerBudget:
      return "Twice the memory budget";
    case WhatIf::Kind::kDropBatches:
      return "Dropping batches before the next is asked for";
    case WhatIf::Kind::kUint8:
      return "Batches of uint8, normalized by the consumer,";
    case WhatIf::Kind::kLongerRing:
      return "Twice the open batches";
    case WhatIf::Kind::kAlone:
      return "Stopping the other programs";
    case WhatIf::Kind::kFasterConsumer:
      return "A consumer that is twice as fast";
  }
  return "";
}

std::string ChangeText(const Diagnosis& diagnosis) {
  if (!diagnosis.change.has_value()) return " No single change is predicted to help notably.";
  const WhatIf& what_if = diagnosis.what_ifs[*diagnosis.change];
  return absl::StrCat(" ", SubjectOf(what_if), " would give ",
                      what_if.at_least ? "at least " : "about ", AboutText(what_if.rate), " ",
                      diagnosis.unit, " (+", Percent(what_if.gain), ").");
}

std::string NotBoundText(const Diagnosis& diagnosis) {
  if (diagnosis.rate <= 0) return "the consumer asked for no batch in that time.";
  std::string text = absl::StrCat("the consumer takes ", Rate(diagnosis, diagnosis.rate));
  if (diagnosis.ceiling.has_value()) {
    absl::StrAppend(&text, "; the pipeline could deliver about ", AboutText(*diagnosis.ceiling));
  }
  return text + ".";
}

}  // namespace

std::string RateText(double rate) {
  if (rate >= 99.95) return Grouped(static_cast<int64_t>(std::llround(std::min(rate, 1e15))));
  return rate >= 9.995 ? absl::StrFormat("%.1f", rate) : absl::StrFormat("%.2f", rate);
}

std::string AboutText(double rate) {
  if (rate < 99.95) return RateText(rate);
  const int digits = static_cast<int>(std::log10(rate)) + 1;
  const double unit = std::pow(10.0, digits - (digits > 3 ? 3 : 2));
  return RateText(unit * std::round(rate / unit));
}

std::string SentenceOf(const Diagnosis& diagnosis) {
  if (diagnosis.binding.empty()) return "nothing was delivered, so nothing is known.";
  const std::string verdict =
      absl::StrFormat("%s (waits %.1f %%): ", diagnosis.verdict, 100 * diagnosis.wait_fraction);
  if (diagnosis.binding[0] == Limit::kConsumer) return verdict + NotBoundText(diagnosis);
  return absl::StrCat(verdict, BindingText(diagnosis), ChangeText(diagnosis));
}

}  // namespace millrace::pipeline
