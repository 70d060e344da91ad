#include "cli/diagnose/diagnosis_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;
using pipeline::Diagnosis;

Json Number(const std::optional<double>& number) {
  return number.has_value() ? Json(*number) : Json(nullptr);
}

Json WaitsJson(const Diagnosis& diagnosis) {
  Json waits = Json::object();
  for (size_t i = 0; i < pipeline::kNumWaitCauses; ++i) {
    const auto cause = static_cast<pipeline::WaitCause>(i);
    waits[std::string(pipeline::WaitCauseName(cause))] = diagnosis.wait_ns[i];
  }
  return waits;
}

Json SlowestJson(const pipeline::SlowRows& rows) {
  if (rows.row_ns <= 0) return nullptr;
  Json json{{"us", 1e-3 * static_cast<double>(rows.row_ns)},
            {"samples", rows.rows},
            {"file", nullptr},
            {"record", nullptr}};
  if (!rows.file.empty()) json["file"] = rows.file;
  if (rows.record >= 0) json["record"] = rows.record;
  return json;
}

Json PartsJson(const Diagnosis& diagnosis) {
  Json parts = Json::array();
  for (const pipeline::WorkPart& part : diagnosis.parts) {
    Json json{{"name", part.name},
              {"summary", part.summary},
              {"us", part.us},
              {"share", part.share},
              {"ceiling", Number(part.ceiling)}};
    if (part.is_op) {
      json["p99_us"] = part.p99_us;
      json["bytes_in"] = Number(part.bytes_in);
      json["bytes_out"] = Number(part.bytes_out);
      json["slowest"] = SlowestJson(part.slowest);
    }
    parts.push_back(std::move(json));
  }
  return parts;
}

Json ResourcesJson(const Diagnosis& diagnosis) {
  Json resources = Json::array();
  for (const pipeline::ResourceUse& use : diagnosis.resources) {
    resources.push_back({{"name", pipeline::LimitName(use.limit)},
                         {"used", use.used},
                         {"of", Number(use.of)},
                         {"allows", Number(use.allows)},
                         {"at_least", use.at_least}});
  }
  return resources;
}

Json WhatIfJson(const pipeline::WhatIf& what_if) {
  Json json{{"what", what_if.label},
            {"setting", nullptr},
            {"samples_per_second", what_if.rate},
            {"gain", what_if.gain},
            {"at_least", what_if.at_least}};
  if (!what_if.setting.empty()) json["setting"] = what_if.setting;
  return json;
}

Json HostJson(const Diagnosis& diagnosis) {
  return {{"usable_cores", diagnosis.cores},
          {"threads", diagnosis.threads},
          {"threads_settled_on", diagnosis.threads_now},
          {"pipeline_cores", diagnosis.pipeline_cores},
          {"other_cores", diagnosis.other_cores},
          {"stolen_cores", diagnosis.stolen_cores},
          {"throttled", diagnosis.throttled},
          {"voluntary_switches_per_second", diagnosis.switches},
          {"involuntary_switches_per_second", diagnosis.preemptions}};
}

Json ConsumerJson(const Diagnosis& diagnosis) {
  return {{"ms_per_batch", diagnosis.consumer_ms},
          {"hand_over_us", Number(diagnosis.hand_over_us)}};
}

Json CopiesJson(const Diagnosis& diagnosis) {
  if (!diagnosis.copies.has_value()) return nullptr;
  return {{"bytes_per_second", diagnosis.copies->bytes_per_second},
          {"issue_us_per_batch", diagnosis.copies->issue_us},
          {"wait_fraction", diagnosis.copies->wait_fraction}};
}

Json ReadsJson(const Diagnosis& diagnosis) {
  Json json{{"bytes_per_record_byte", Number(diagnosis.read_factor)},
            {"page_cache_share", Number(diagnosis.cached)},
            {"under_way", diagnosis.reads_under_way},
            {"in_flight", diagnosis.reads_in_flight},
            {"mean_ms", diagnosis.read_ms},
            {"p50_ms", diagnosis.read_p50_ms},
            {"p99_ms", diagnosis.read_p99_ms},
            {"slow_file", nullptr}};
  if (diagnosis.slow_file.has_value()) json["slow_file"] = diagnosis.slow_file->file;
  return json;
}

}  // namespace

Json DiagnosisJson(const Diagnosis& diagnosis) {
  Json binding = Json::array();
  for (const pipeline::Limit limit : diagnosis.binding) {
    binding.push_back(pipeline::LimitName(limit));
  }
  Json what_ifs = Json::array();
  for (const pipeline::WhatIf& what_if : diagnosis.what_ifs) {
    what_ifs.push_back(WhatIfJson(what_if));
  }
  Json change = nullptr;
  if (diagnosis.change.has_value()) change = WhatIfJson(diagnosis.what_ifs[*diagnosis.change]);
  int64_t waited_ns = 0;
  for (const int64_t ns : diagnosis.wait_ns) waited_ns += ns;
  return {{"verdict", diagnosis.verdict},
          {"sentence", diagnosis.sentence},
          {"seconds", diagnosis.seconds},
          {"samples", diagnosis.samples},
          {"samples_per_second", diagnosis.rate},
          {"pace", Number(diagnosis.pace)},
          {"au", Number(diagnosis.utilisation)},
          {"ceiling", Number(diagnosis.ceiling)},
          {"wait_fraction", diagnosis.wait_fraction},
          {"wait_ns", waited_ns},
          {"wait_ns_by_cause", WaitsJson(diagnosis)},
          {"binding", std::move(binding)},
          {"cpu_us_per_sample", diagnosis.measured_us},
          {"process_cpu_us_per_sample", diagnosis.process_us},
          {"parts", PartsJson(diagnosis)},
          {"resources", ResourcesJson(diagnosis)},
          {"what_ifs", std::move(what_ifs)},
          {"change", std::move(change)},
          {"host", HostJson(diagnosis)},
          {"reads", ReadsJson(diagnosis)},
          {"consumer", ConsumerJson(diagnosis)},
          {"copies", CopiesJson(diagnosis)},
          {"open_batches", diagnosis.ring},
          {"held_bytes", diagnosis.held_bytes}};
}

}  // namespace millrace::cli
