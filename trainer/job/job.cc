#include "trainer/job/job.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/job/adversarial.h"
#include "trainer/job/optimizer_fields.h"
#include "trainer/job/reduction.h"

namespace millrace::trainer {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxMib = 1 << 24;  // 16 TiB
constexpr uint64_t kMaxStepsPerEpoch = uint64_t{1} << 40;

void FillDefaults(Job& job) {
  if (job.log_every_steps() == 0) job.set_log_every_steps(20);
  if (job.memory_budget_mib() == 0) job.set_memory_budget_mib(1024);
  FillDefaults(*job.mutable_reduction());
  FillDefaults(*job.mutable_optimizer());
  if (job.has_adversarial()) FillDefaults(job.optimizer(), *job.mutable_adversarial());
  CheckpointPolicy& checkpoint = *job.mutable_checkpoint();
  if (checkpoint.keep() == 0) checkpoint.set_keep(3);
  if (checkpoint.every_epochs() == 0 && checkpoint.every_steps() == 0) {
    checkpoint.set_every_epochs(1);
  }
}

absl::Status Check(const Job& job) {
  if (job.model().empty() && !job.has_adversarial()) {
    return absl::InvalidArgumentError("model: no file is given");
  }
  if (job.train().empty()) return absl::InvalidArgumentError("train: no file is given");
  if (job.has_init_from() && job.init_from().file().empty()) {
    return absl::InvalidArgumentError("init_from.file: no file is given");
  }
  if (job.pipeline_threads() > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("pipeline_threads: ", job.pipeline_threads(), " is over ", kMaxThreads));
  }
  if (job.memory_budget_mib() > kMaxMib) {
    return absl::InvalidArgumentError("memory_budget_mib is out of range");
  }
  if (job.steps_per_epoch() > kMaxStepsPerEpoch) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps_per_epoch: ", job.steps_per_epoch(), " is over ", kMaxStepsPerEpoch));
  }
  if (job.checkpoint().keep() > (1u << 20)) {
    return absl::InvalidArgumentError("checkpoint.keep is out of range");
  }
  if (job.checkpoint().keep_best() > (1u << 20)) {
    return absl::InvalidArgumentError("checkpoint.keep_best is out of range");
  }
  if (job.checkpoint().keep_best() > 0 && job.eval().empty()) {
    return absl::InvalidArgumentError("checkpoint.keep_best needs eval");
  }
  return Check(job.reduction());
}

// The file and the fields that override it, for errors, since the file alone may be right:
// "job.pbtxt with reduction.exact: true given beside it".
std::string WithFields(const std::string& path, std::span<const FieldValue> fields) {
  if (fields.empty()) return path;
  const auto format = [](std::string* out, const FieldValue& field) {
    absl::StrAppend(out, "reduction.", field.name, ": ", field.value);
  };
  return absl::StrCat(path, " with ", absl::StrJoin(fields, ", ", format), " given beside it");
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
                                std::set<std::string>& used,
                                std::span<const FieldValue> reduction) {
  JobFile file;
  auto parsed = pipeline::LoadTextProto(path, variables, &file.job, &used);
  if (!parsed.ok()) return parsed.status();
  if (const auto bad = CheckOptimizer(file.job.optimizer())) return ErrorAt(*parsed, *bad);
  if (const auto bad = CheckAdversarial(file.job)) return ErrorAt(*parsed, *bad);
  const absl::Status own = Check(file.job);
  for (const FieldValue& field : reduction) {
    MILLRACE_RETURN_IF_ERROR(SetField(field, *file.job.mutable_reduction()));
  }
  const std::string blamed = own.ok() ? WithFields(path, reduction) : path;
  MILLRACE_RETURN_IF_ERROR(Annotate(Check(file.job), blamed));
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

CoreSplit SplitCores(int usable, int local_ranks, int threads, int pipeline_threads) {
  CoreSplit split;
  split.usable = usable;
  split.per_rank = threads > 0 ? threads : std::max(1, usable / std::max(1, local_ranks));
  const bool reserve = split.per_rank >= 4;
  split.pipeline = pipeline_threads > 0 ? pipeline_threads : std::max(1, split.per_rank / 4);
  split.compute = reserve ? std::max(1, split.per_rank - split.pipeline) : split.per_rank;
  split.io = std::clamp(2 * split.pipeline, 4, 64);
  return split;
}

}  // namespace millrace::trainer
