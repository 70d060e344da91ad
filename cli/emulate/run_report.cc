#include "cli/emulate/run_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/host.h"
#include "base/metric_sum.h"
#include "base/metric_table.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/diagnose/diagnosis_json.h"
#include "cli/emulate/accelerator.h"
#include "readers/record_source.h"

namespace millrace::cli {
namespace {

double SamplesPerSecond(const RunReport& report) {
  return report.seconds > 0 ? static_cast<double>(report.samples) / report.seconds : 0;
}

double CpuSecondsPer1000(const RunReport& report) {
  return report.samples > 0 ? 1000 * report.cpu_seconds / static_cast<double>(report.samples) : 0;
}

nlohmann::ordered_json WaitJson(const WaitHistogram& waits) {
  return {{"p50_seconds", waits.Quantile(0.5)},
          {"p99_seconds", waits.Quantile(0.99)},
          {"max_seconds", waits.max()},
          {"steps", waits.count()},
          {"steps_over_50us", waits.num_noticed()}};
}

std::string UtilisationText(const StepSums& steps) {
  if (const auto utilisation = steps.utilisation()) return absl::StrFormat("%.3f", *utilisation);
  return "not known, for no step was counted";
}

void PrintFetch(const FetchMet& fetch) {
  const std::optional<double> ratio = fetch.ratio();
  if (!ratio.has_value()) return;
  const std::string too_many =
      *ratio > readers::kMostFetched
          ? absl::StrFormat(", more than %g: see `fetch` in millrace explain",
                            readers::kMostFetched)
          : "";
  absl::PrintF("fetched %s for %s of records: %.2f bytes for each%s\n",
               BytesText(static_cast<double>(fetch.fetched_bytes)),
               BytesText(static_cast<double>(fetch.record_bytes)), *ratio, too_many);
}

void PrintAccelerators(const RunFlags& flags, const RunReport& report) {
  const WaitHistogram& waits = report.steps.waits();
  absl::PrintF("%d emulated accelerator%s%s of %.0f img/s: utilisation %s\n", flags.accelerators,
               flags.accelerators == 1 ? "" : "s",
               flags.accelerator.empty() ? "" : " " + flags.accelerator, SamplesPerSecondOf(flags),
               UtilisationText(report.steps));
  absl::PrintF("waits of %d steps: median %.3f ms, p99 %.3f ms, longest %.3f ms; %d over 50 us\n",
               waits.count(), 1e3 * waits.Quantile(0.5), 1e3 * waits.Quantile(0.99),
               1e3 * waits.max(), waits.num_noticed());
}

}  // namespace

DamageMet DamageOf(const Metrics& metrics) {
  return {.records_bad = SumOf(metrics, metric::kRecordsBad),
          .damaged = metrics.CountersOf(metric::kRecordsDamaged)};
}

std::optional<double> FetchMet::ratio() const {
  if (record_bytes <= 0) return std::nullopt;
  return static_cast<double>(fetched_bytes) / static_cast<double>(record_bytes);
}

FetchMet FetchOf(const Metrics& metrics) {
  return {.fetched_bytes = SumOf(metrics, metric::kFetchedBytes),
          .record_bytes = SumOf(metrics, metric::kFetchedRecordBytes)};
}

void PrintJson(const nlohmann::ordered_json& json) {
  std::puts(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void PrintErrorJson(const absl::Status& status) {
  PrintJson({{"error", ShownMessage(ToStd(status.message()))}});
}

void PrintDamageText(const DamageMet& damage) {
  for (const auto& [reason, count] : damage.damaged) {
    absl::PrintF("damaged: %d samples, %s\n", count, reason);
  }
}

nlohmann::ordered_json AcceleratorJson(const RunFlags& flags) {
  const double rate = SamplesPerSecondOf(flags);
  if (rate <= 0) return nullptr;
  nlohmann::ordered_json json{{"name", nullptr}, {"samples_per_second", rate}};
  if (const Accelerator* accelerator = FindAccelerator(flags.accelerator)) {
    json["name"] = std::string(accelerator->name);
    json["batch"] = accelerator->batch;
    json["compute_seconds"] = accelerator->compute_seconds;
  }
  return json;
}

void PrintRunJson(const RunFlags& flags, const RunReport& report) {
  nlohmann::ordered_json json{{"samples", report.samples},
                              {"batches", report.batches},
                              {"seconds", report.seconds},
                              {"samples_per_second", SamplesPerSecond(report)},
                              {"wait_fraction", report.steps.wait_fraction()},
                              {"wait", WaitJson(report.steps.waits())},
                              {"au", nullptr},
                              {"accelerator", AcceleratorJson(flags)},
                              {"accelerators", nullptr},
                              {"digest", nullptr},
                              {"records_bad", report.damage.records_bad},
                              {"records_damaged", report.damage.damaged},
                              {"fetched_bytes", nullptr},
                              {"fetched_bytes_per_record_byte", nullptr},
                              {"cpu_seconds_per_1000_samples", CpuSecondsPer1000(report)},
                              {"peak_rss_bytes", PeakRssBytes()},
                              {"diagnosis", DiagnosisJson(report.diagnosis)}};
  if (SamplesPerSecondOf(flags) > 0) {
    if (const auto utilisation = report.steps.utilisation()) json["au"] = *utilisation;
    json["accelerators"] = flags.accelerators;
  }
  if (const auto ratio = report.fetch.ratio()) {
    json["fetched_bytes"] = report.fetch.fetched_bytes;
    json["fetched_bytes_per_record_byte"] = *ratio;
  }
  if (flags.digest) json["digest"] = absl::StrFormat("%016x", report.digest);
  if (!report.status.ok()) json["error"] = std::string(report.status.message());
  PrintJson(json);
}

void PrintRunText(const RunFlags& flags, const RunReport& report) {
  absl::PrintF("%d samples in %d batches, %.2f s: %.0f samples/s\n", report.samples, report.batches,
               report.seconds, SamplesPerSecond(report));
  absl::PrintF(
      "wait %.1f %% of the time; %.2f s of processor time per 1,000 samples; peak memory "
      "%s; %d bad records\n",
      100 * report.steps.wait_fraction(), CpuSecondsPer1000(report), BytesText(PeakRssBytes()),
      report.damage.records_bad);
  if (SamplesPerSecondOf(flags) > 0) PrintAccelerators(flags, report);
  PrintFetch(report.fetch);
  PrintDamageText(report.damage);
  if (flags.digest) absl::PrintF("digest %016x\n", report.digest);
  absl::PrintF("verdict: %s\n", report.diagnosis.sentence);
}

}  // namespace millrace::cli
