#include <memory>
#include <utility>

#include "augment/vocabulary.h"
#include "pipeline/logical/logical.h"
#include "pipeline/plan/paths.h"
#include "pipeline/stages/checker.h"

namespace millrace::pipeline {
namespace {

using Vocabularies = decltype(PlanMessage::vocabularies);

// Reads a vocabulary's file, unless `files` has it, and sets its digest, or compares it.
absl::Status Pin(const OptionsChecker& check, proto::Vocabulary* vocabulary, Vocabularies* files) {
  std::shared_ptr<const augment::Vocabulary>& loaded = (*files)[vocabulary->file()];
  if (loaded == nullptr) {
    absl::StatusOr<augment::Vocabulary> read = augment::Vocabulary::Load(vocabulary->file());
    if (!read.ok()) {
      const std::string from =
          absl::IsNotFound(read.status()) ? LookedFrom(vocabulary->file()) : "";
      const std::string why = absl::StrCat(": ", read.status().message(), from);
      return {read.status().code(), check.Error("file", why).message()};
    }
    loaded = std::make_shared<const augment::Vocabulary>(*std::move(read));
  }
  if (vocabulary->digest() == 0) vocabulary->set_digest(loaded->digest());
  if (vocabulary->digest() == loaded->digest()) return absl::OkStatus();
  return check.Error("digest", absl::StrCat(" is ", vocabulary->digest(), " but that of ",
                                            vocabulary->file(), " is ", loaded->digest()));
}

}  // namespace

absl::Status PinVocabularies(PlanMessage* plan) {
  for (int i = 0; i < plan->pipeline.stage_size(); ++i) {
    proto::Stage* const stage = plan->pipeline.mutable_stage(i);
    if (!stage->has_vocabulary()) continue;
    const PipelineAt at = PipelineAt::Whole(*plan);
    MILLRACE_RETURN_IF_ERROR(
        Pin(OptionsChecker(at, i), stage->mutable_vocabulary(), &plan->vocabularies));
  }
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
