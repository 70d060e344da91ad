#include "pipeline/edit_plan.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "pipeline/plan/check_edited.h"
#include "pipeline/plan/message.h"
#include "pipeline/plan/text_edit.h"

namespace millrace::pipeline {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::util::MessageDifferencer;

const FieldDescriptor* FieldOf(const FieldChange& change) {
  return proto::Performance::descriptor()->FindFieldByName(change.field);
}

// The index of the prefetch stage; -1: there is none.
int PrefetchIn(const proto::Pipeline& pipeline) {
  const auto stage = std::find_if(pipeline.stage().begin(), pipeline.stage().end(),
                                  [](const proto::Stage& one) { return one.has_prefetch(); });
  return stage == pipeline.stage().end() ? -1 : static_cast<int>(stage - pipeline.stage().begin());
}

absl::Status CheckFields(std::span<const FieldChange> changes) {
  for (const FieldChange& change : changes) {
    const std::vector<std::string> known = PerformanceFields();
    if (std::ranges::find(known, change.field) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("\"", change.field,
                                                   "\" is not a field of the performance of a plan",
                                                   DidYouMean(change.field, known)));
  }
  return absl::OkStatus();
}

// The message with the changes made.
proto::Pipeline Changed(proto::Pipeline pipeline, std::span<const FieldChange> changes) {
  for (const FieldChange& change : changes) {
    const auto value = static_cast<uint32_t>(change.value);
    if (const FieldDescriptor* const field = FieldOf(change)) {
      proto::Performance& performance = *pipeline.mutable_performance();
      performance.GetReflection()->SetUInt32(&performance, field, value);
      continue;
    }
    const int at = PrefetchIn(pipeline);
    proto::Stage* const stage = at < 0 ? pipeline.add_stage() : pipeline.mutable_stage(at);
    stage->mutable_prefetch()->set_batches(value);
  }
  return pipeline;
}

// Makes the changes in the text of a message.
class Editor {
 public:
  Editor(const proto::Pipeline& pipeline, const TextLocations& locations, TextEdit& edit)
      : pipeline_(pipeline), locations_(locations), edit_(edit) {}

  void Make(std::span<const FieldChange> changes, std::string_view title) {
    std::vector<NewField> fields;
    for (const FieldChange& change : changes) {
      if (FieldOf(change) == nullptr) {
        SetPrefetch(change);
      } else if (const auto name = Find({{"performance"}, {change.field}})) {
        edit_.SetNumber(*name, change.value, change.comment);
      } else {
        fields.push_back({absl::StrCat(change.field, ": ", change.value), change.comment});
      }
    }
    if (!fields.empty()) AddToPerformance(fields, title);
  }

 private:
  std::optional<size_t> Find(std::initializer_list<FieldStep> path) const {
    return locations_.Find(std::span<const FieldStep>(path.begin(), path.size()));
  }

  void SetPrefetch(const FieldChange& change) {
    const int stage = PrefetchIn(pipeline_);
    const std::string batches = absl::StrCat("batches: ", change.value);
    if (stage < 0) {
      return edit_.AddLines(
          {absl::StrCat("stage { prefetch { ", batches, " } }", CommentBehind(change.comment))});
    }
    if (const auto name = Find({{"stage", stage}, {"prefetch"}, {"batches"}})) {
      edit_.SetNumber(*name, change.value, change.comment);
    } else if (const auto message = Find({{"stage", stage}, {"prefetch"}})) {
      edit_.AddFields(*message, {{batches, change.comment}});
    }
  }

  void AddToPerformance(const std::vector<NewField>& fields, std::string_view title) {
    if (const auto message = Find({{"performance"}})) return edit_.AddFields(*message, fields);
    std::vector<std::string> lines = {absl::StrCat("performance {", CommentBehind(title))};
    for (const NewField& field : fields) {
      lines.push_back(absl::StrCat("  ", field.text, CommentBehind(field.comment)));
    }
    lines.emplace_back("}");
    edit_.AddLines(lines);
  }

  const proto::Pipeline& pipeline_;
  const TextLocations& locations_;
  TextEdit& edit_;
};

proto::Pipeline WithoutPerformance(proto::Pipeline pipeline) {
  pipeline.clear_performance();
  const auto kept =
      std::remove_if(pipeline.mutable_stage()->begin(), pipeline.mutable_stage()->end(),
                     [](const proto::Stage& stage) { return stage.has_prefetch(); });
  pipeline.mutable_stage()->erase(kept, pipeline.mutable_stage()->end());
  return pipeline;
}

}  // namespace

std::vector<std::string> PerformanceFields() {
  std::vector<std::string> names;
  const auto* const type = proto::Performance::descriptor();
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  names.emplace_back(kPrefetchField);
  return names;
}

absl::StatusOr<EditedText> EditPlanText(std::string_view text, const Variables& variables,
                                        std::span<const FieldChange> changes,
                                        std::string_view title) {
  MILLRACE_RETURN_IF_ERROR(CheckFields(changes));
  proto::Pipeline before;
  MILLRACE_ASSIGN_OR_RETURN(const TextLocations locations,
                            ParseTextProto(text, "the plan", variables, &before));
  TextEdit edit(text, variables);
  Editor(before, locations, edit).Make(changes, title);
  return CheckEdited(edit, variables, Changed(before, changes),
                     "a number of `performance` or `prefetch`", "the plan");
}

bool SameButPerformance(const Plan& a, const Plan& b) {
  return MessageDifferencer::Equals(WithoutPerformance(a.message().pipeline),
                                    WithoutPerformance(b.message().pipeline));
}

}  // namespace millrace::pipeline
