#include "trainer/job/job.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/job/adversarial.h"
#include "trainer/job/bad_field.h"
#include "trainer/job/loss_scaling.h"
#include "trainer/job/optimizer_fields.h"
#include "trainer/job/reduction.h"
#include "trainer/job/servers.h"

namespace millrace::trainer {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxReplicas = 1024;
constexpr uint32_t kMaxMib = 1 << 24;  // 16 TiB
constexpr uint64_t kMaxStepsPerEpoch = uint64_t{1} << 40;
constexpr uint32_t kMaxKept = 1 << 20;

// The reduction with what other fields of the job set.
Reduction ReductionOf(const Job& job) {
  Reduction reduction = job.reduction();
  if (job.has_loss_scaling()) reduction.set_skip_non_finite(true);
  return reduction;
}

void FillDefaults(Job& job) {
  if (job.log_every_steps() == 0) job.set_log_every_steps(20);
  if (job.has_loss_scaling()) {
    FillDefaults(*job.mutable_loss_scaling());
    *job.mutable_reduction() = ReductionOf(job);
  }
  FillDefaults(*job.mutable_reduction());
  if (UsesServers(job)) FillDefaults(*job.mutable_strategy()->mutable_parameter_server());
  FillDefaults(*job.mutable_optimizer());
  if (job.has_adversarial()) FillDefaults(job.optimizer(), *job.mutable_adversarial());
  CheckpointPolicy& checkpoint = *job.mutable_checkpoint();
  if (checkpoint.keep() == 0) checkpoint.set_keep(3);
  if (checkpoint.every_epochs() == 0 && checkpoint.every_steps() == 0) {
    checkpoint.set_every_epochs(1);
  }
}

void AtMost(uint64_t value, uint64_t most, FieldChecks::Path path, FieldChecks& checks) {
  checks.Require(value <= most, path, absl::StrCat(value, " is over ", most));
}

bool IsOneOf(const std::string& value, std::initializer_list<std::string_view> values) {
  return std::ranges::find(values, value) != values.end();
}

// The fields that say where and in which types layers are computed. An empty one is its default.
void CheckCompute(const Job& job, FieldChecks& checks) {
  const std::string& device = job.device();
  checks.Require(IsOneOf(device, {"", "cpu", "cuda"}), {{"device"}},
                 absl::StrCat("\"", device, "\" is none of cpu and cuda"));
  const std::string& precision = job.precision();
  checks.Require(
      IsOneOf(precision, {"", "float32", "bfloat16", "auto", "float16", "tf32"}), {{"precision"}},
      absl::StrCat("\"", precision, "\" is none of float32, bfloat16, auto, float16 and tf32"));
  checks.Require(UsesCuda(job) || !IsOneOf(precision, {"float16", "tf32"}), {{"precision"}},
                 absl::StrCat("\"", precision, "\" needs device: \"cuda\""));
  const std::string& plans = job.cudnn_plans();
  checks.Require(IsOneOf(plans, {"", "heuristic", "tuned"}), {{"cudnn_plans"}},
                 absl::StrCat("\"", plans, "\" is none of heuristic and tuned"));
  checks.Require(UsesCuda(job) || !TunesPlans(job), {{"cudnn_plans"}},
                 "\"tuned\" needs device: \"cuda\"");
  checks.Require(!UsesCuda(job) || !UsesServers(job), {{"device"}},
                 "workers of a parameter_server compute on the CPU");
}

// The first field that is out of range, or that contradicts another; nullopt: none.
std::optional<BadField> CheckJob(const Job& job) {
  FieldChecks checks;
  constexpr char kNoFile[] = "no file is given";
  constexpr char kNoFolder[] = "no folder is given (empty: no checkpoints)";
  checks.Require(!job.model().empty() || job.has_adversarial(), {{"model"}}, kNoFile);
  checks.Require(!job.train().empty(), {{"train"}}, kNoFile);
  checks.Require(!job.has_init_from() || !job.init_from().file().empty(), {{"init_from"}, {"file"}},
                 kNoFile);
  CheckCompute(job, checks);
  AtMost(job.pipeline_threads(), kMaxThreads, {{"pipeline_threads"}}, checks);
  const uint32_t replicas = job.strategy().mirrored().replicas();
  checks.Require(!job.strategy().has_mirrored() || (replicas >= 1 && replicas <= kMaxReplicas),
                 {{"strategy"}, {"mirrored"}, {"replicas"}},
                 absl::StrCat(replicas, " is not between 1 and ", kMaxReplicas));
  AtMost(job.memory_budget_mib(), kMaxMib, {{"memory_budget_mib"}}, checks);
  AtMost(job.steps_per_epoch(), kMaxStepsPerEpoch, {{"steps_per_epoch"}}, checks);
  const CheckpointPolicy& checkpoint = job.checkpoint();
  checks.Require(!job.has_checkpoint() || checkpoint.has_folder(), {{"checkpoint"}, {"folder"}},
                 kNoFolder);
  AtMost(checkpoint.keep(), kMaxKept, {{"checkpoint"}, {"keep"}}, checks);
  AtMost(checkpoint.keep_best(), kMaxKept, {{"checkpoint"}, {"keep_best"}}, checks);
  checks.Require(checkpoint.keep_best() == 0 || !job.eval().empty(),
                 {{"checkpoint"}, {"keep_best"}}, "it needs eval");
  if (checks.first()) return checks.first();
  if (auto bad = CheckAdversarial(job)) return bad;
  if (auto bad = CheckReduction(ReductionOf(job))) return bad;
  if (auto bad = CheckLossScaling(job)) return bad;
  return CheckServers(job);
}

// The file and the fields that override it, for errors, since the file alone may be right:
// "job.pbtxt with reduction.exact: true given beside it".
std::string WithFields(const std::string& path, std::span<const FieldValue> reduction,
                       std::span<const FieldValue> servers, const std::string& device) {
  std::vector<std::string> given;
  if (!device.empty()) given.push_back(absl::StrCat("device: ", device));
  for (const FieldValue& field : reduction) {
    given.push_back(absl::StrCat("reduction.", field.name, ": ", field.value));
  }
  for (const FieldValue& field : servers) {
    given.push_back(absl::StrCat(kServersField, ".", field.name, ": ", field.value));
  }
  if (given.empty()) return path;
  return absl::StrCat(path, " with ", absl::StrJoin(given, ", "), " given beside it");
}

std::vector<ModelFile> ModelsOf(const Job& job) {
  if (!job.has_adversarial()) return {{job.model(), "", job.optimizer()}};
  const AdversarialModel& discriminator = job.adversarial().discriminator();
  const AdversarialModel& generator = job.adversarial().generator();
  return {{discriminator.model(), "discriminator", discriminator.optimizer()},
          {generator.model(), "generator", generator.optimizer()}};
}

std::string TextOf(const Job& job) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(job, &text);  // fails only for an unwritable stream
  return text;
}

Job WhatWeightsDependOn(Job job) {
  job.clear_model();
  job.clear_train();
  job.clear_eval();
  job.clear_checkpoint();
  job.clear_init_from();
  job.clear_log_every_steps();
  job.clear_pipeline_threads();
  job.clear_memory_budget_mib();
  job.clear_recompute_activations();
  job.clear_device();
  job.clear_cuda_graphs();
  job.clear_cudnn_plans();
  if (job.strategy().has_mirrored()) job.clear_strategy();
  if (job.precision() == "float32") job.clear_precision();
  // Sums stop being late this many steps before the last one.
  bool needs_end = NeedsEnd(job.optimizer()) || job.reduction().stale_steps() > 0;
  if (job.has_adversarial()) {
    Adversarial& adversarial = *job.mutable_adversarial();
    needs_end = NeedsEnd(adversarial.generator().optimizer()) ||
                NeedsEnd(adversarial.discriminator().optimizer());
    adversarial.mutable_generator()->clear_model();
    adversarial.mutable_discriminator()->clear_model();
    job.clear_optimizer();
  }
  if (!needs_end) job.clear_epochs();
  KeepWhatWeightsDependOn(*job.mutable_reduction());
  KeepWhatWeightsDependOn(job.mutable_strategy());
  if (job.strategy().ByteSizeLong() == 0) job.clear_strategy();
  if (job.reduction().ByteSizeLong() == 0) job.clear_reduction();
  return job;
}

constexpr char kUnknownFields[] = "it has fields that this version of the program does not know";

// False if the text has fields that this version does not know.
bool ParseJob(const std::string& text, Job& job) {
  google::protobuf::TextFormat::Parser parser;
  SilentErrors silent;
  parser.RecordErrorsTo(&silent);
  return parser.ParseFromString(text, &job);
}

std::vector<std::string> DifferencesOf(const Job& before, const Job& now) {
  google::protobuf::util::MessageDifferencer differencer;
  std::string report;
  differencer.ReportDifferencesToString(&report);
  differencer.Compare(before, now);
  return absl::StrSplit(report, '\n', absl::SkipEmpty());
}

}  // namespace

std::string CompareJobs(const std::string& before, const std::string& now) {
  Job a;
  Job b;
  if (!ParseJob(before, a) || !ParseJob(now, b)) return kUnknownFields;
  const std::vector<std::string> differences = DifferencesOf(a, b);
  return differences.empty() ? "" : differences[0];
}

JobChanges ChangesOfJob(const std::string& before, const std::string& now) {
  Job a;
  Job b;
  if (!ParseJob(before, a) || !ParseJob(now, b)) return {"", {kUnknownFields}};
  JobChanges changes;
  if (a.epochs() != b.epochs()) {
    changes.length = absl::StrCat("epochs: ", a.epochs(), " -> ", b.epochs());
  }
  a.clear_epochs();
  b.clear_epochs();
  changes.others = DifferencesOf(a, b);
  return changes;
}

absl::StatusOr<JobFile> LoadJob(const std::string& path, const pipeline::Variables& variables,
                                std::set<std::string>& used, std::span<const FieldValue> reduction,
                                std::span<const FieldValue> servers, const std::string& device) {
  JobFile file;
  auto parsed = pipeline::LoadTextProto(path, variables, &file.job, &used);
  if (!parsed.ok()) return parsed.status();
  if (const auto bad = CheckOptimizer(file.job.optimizer())) return ErrorAt(*parsed, *bad);
  const std::optional<BadField> own = CheckJob(file.job);
  for (const FieldValue& field : reduction) {
    MILLRACE_RETURN_IF_ERROR(SetField(field, *file.job.mutable_reduction()));
  }
  MILLRACE_RETURN_IF_ERROR(SetServers(servers, file.job));
  if (!device.empty()) file.job.set_device(device);
  if (const auto bad = CheckJob(file.job)) {
    if (own && own->name() == bad->name()) return ErrorAt(*parsed, *bad);
    return absl::InvalidArgumentError(absl::StrCat(WithFields(path, reduction, servers, device),
                                                   ": ", bad->name(), ": ", bad->why));
  }
  FillDefaults(file.job);
  file.places = *std::move(parsed);
  file.text = TextOf(file.job);
  file.weights_text = TextOf(WhatWeightsDependOn(file.job));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const auto resolve = [&folder](const std::string& name) {
    return name.empty() ? name : (folder / name).string();
  };
  file.model_path = resolve(file.job.model());
  file.models = ModelsOf(file.job);
  for (ModelFile& model : file.models) model.path = resolve(model.path);
  file.train_path = resolve(file.job.train());
  file.eval_path = resolve(file.job.eval());
  file.checkpoint_folder = resolve(file.job.checkpoint().folder());
  file.init_path = resolve(file.job.init_from().file());
  return file;
}

void FillFromPlan(const pipeline::Performance& said, Job& job) {
  constexpr int kDefaultMib = 1024;
  if (job.pipeline_threads() == 0) job.set_pipeline_threads(static_cast<uint32_t>(said.threads));
  if (job.memory_budget_mib() != 0) return;
  const int mib = said.memory_budget_mib != 0 ? said.memory_budget_mib : kDefaultMib;
  job.set_memory_budget_mib(static_cast<uint32_t>(mib));
}

std::string CoreSplit::PipelineText() const {
  if (pipeline_most == pipeline) return absl::StrCat(pipeline);
  return absl::StrCat(pipeline, " to ", pipeline_most);
}

CoreSplit SplitCores(int usable, int local_ranks, int threads, int pipeline_threads) {
  CoreSplit split;
  split.usable = usable;
  split.per_rank = threads > 0 ? threads : std::max(1, usable / std::max(1, local_ranks));
  const int spared = std::max(1, split.per_rank / 4);
  split.pipeline_most = pipeline_threads > 0 ? pipeline_threads : spared;
  split.pipeline_first = split.pipeline_most;
  split.pipeline = std::min(spared, split.pipeline_most);
  split.compute = split.per_rank >= 4 ? split.per_rank - spared : split.per_rank;
  split.io = std::clamp(2 * split.pipeline_most, 4, 64);
  return split;
}

CoreSplit SplitCoresToGrow(CoreSplit split, int pipeline_threads) {
  if (pipeline_threads == 0) split.pipeline_most = std::max(split.pipeline_most, split.per_rank);
  return split;
}

}  // namespace millrace::trainer
