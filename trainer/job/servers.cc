#include "trainer/job/servers.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/job/reduction.h"

namespace millrace::trainer {
namespace {

constexpr uint32_t kMaxStaleness = 1 << 20;

// The fields of `reduction` that need all gradients of a step in one place.
void RefuseReduction(const Reduction& reduction, FieldChecks& checks) {
  const bool is_wired = !reduction.wire_dtype().empty() && reduction.wire_dtype() != "float32";
  const std::pair<const char*, bool> fields[] = {
      {"accumulate_steps", reduction.accumulate_steps() > 1},
      {"clip_norm", reduction.clip_norm() > 0},
      {"skip_non_finite", reduction.skip_non_finite()},
      {"wire_dtype", is_wired},
      {"shard_optimizer", reduction.shard_optimizer()},
      {"stale_steps", reduction.stale_steps() > 0},
      {"digest_every", reduction.digest_every() > 0},
  };
  for (const auto& [name, is_set] : fields) {
    checks.Require(!is_set, {{"reduction"}, {name}},
                   absl::StrCat("it does not go with ", kServersField));
  }
}

}  // namespace

absl::Status SetServers(std::span<const FieldValue> fields, Job& job) {
  const auto asks_for_servers = [](const FieldValue& field) { return field.name == "servers"; };
  if (!fields.empty() && !UsesServers(job) && std::ranges::none_of(fields, asks_for_servers)) {
    return absl::InvalidArgumentError(absl::StrCat(
        kServersField, ".", fields[0].name, ": the job has no servers; give their number too"));
  }
  for (const FieldValue& field : fields) {
    google::protobuf::TextFormat::Parser parser;
    SilentErrors silent;
    parser.RecordErrorsTo(&silent);
    auto* const spec = job.mutable_strategy()->mutable_parameter_server();
    if (!parser.MergeFromString(absl::StrCat(field.name, ": ", field.value), spec)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kServersField, ".", field.name, " cannot be '", field.value, "'"));
    }
  }
  return absl::OkStatus();
}

std::optional<BadField> CheckServers(const Job& job) {
  FieldChecks checks;
  if (!UsesServers(job)) return std::nullopt;
  const ParameterServer& spec = job.strategy().parameter_server();
  const auto require = [&checks](bool good, std::string_view field, const std::string& why) {
    checks.Require(good, {{"strategy"}, {"parameter_server"}, {field}}, why);
  };
  require(spec.servers() <= kMaxServers, "servers",
          absl::StrCat(spec.servers(), " is over ", kMaxServers));
  require(spec.max_staleness() <= kMaxStaleness, "max_staleness",
          absl::StrCat(spec.max_staleness(), " is over ", kMaxStaleness));
  require(!spec.has_max_staleness() || !spec.synchronous(), "max_staleness",
          "it does not go with synchronous, which drops every late gradient");
  require(spec.backup_workers() == 0 || spec.synchronous(), "backup_workers",
          "it needs synchronous");
  checks.Require(!job.has_adversarial(), {{"adversarial"}},
                 absl::StrCat("it does not go with ", kServersField));
  RefuseReduction(job.reduction(), checks);
  return checks.first();
}

void FillDefaults(ParameterServer& spec) {
  if (spec.servers() == 0) spec.set_servers(1);
}

uint64_t MaxStaleness(const ParameterServer& spec, int workers) {
  return spec.has_max_staleness() ? spec.max_staleness() : 2 * static_cast<uint64_t>(workers);
}

void KeepWhatWeightsDependOn(StrategySpec* strategy) {
  if (!strategy->has_parameter_server()) return;
  ParameterServer& spec = *strategy->mutable_parameter_server();
  spec.clear_servers();
  // The sums of all workers are those of ranks that go in step.
  if (spec.synchronous() && spec.backup_workers() == 0) strategy->clear_parameter_server();
}

}  // namespace millrace::trainer
