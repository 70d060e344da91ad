#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/plan/check.h"
#include "pipeline/plan/words.h"
#include "pipeline/stages/carry.h"

namespace millrace::pipeline {
namespace {

// Whether boxes are given by two corners.
constexpr Words<bool, 2> kBoxFormats = {{{"xyxy", true}, {"xywh", false}}};

// Calls `f` with the stage's message, if that is one with `boxes` and `mask`.
template <typename Stage, typename Function>
void VisitGeometry(Stage& stage, const Function& f) {
  if (stage.has_random_resized_crop()) f(stage.random_resized_crop());
  if (stage.has_random_crop()) f(stage.random_crop());
  if (stage.has_center_crop()) f(stage.center_crop());
  if (stage.has_resize()) f(stage.resize());
  if (stage.has_flip()) f(stage.flip());
  if (stage.has_pad()) f(stage.pad());
}

class CarryChecker : public OptionsChecker {
 public:
  using OptionsChecker::OptionsChecker;

  template <typename Message>
  absl::Status Check(const Message& message) const {
    std::set<std::string> fields = {message.field()};
    if (message.has_boxes()) MILLRACE_RETURN_IF_ERROR(Boxes(message.boxes(), &fields));
    if (fields.contains(message.mask())) {
      return Error("mask", absl::StrCat(" \"", message.mask(), "\" is there twice"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status BoxError(std::string_view field, const std::string& what, int index = -1) const {
    return ErrorAt({{op_name()}, {"boxes"}, {field, index}}, absl::StrCat(ToAbsl(field), what));
  }

  absl::Status Boxes(const proto::Boxes& boxes, std::set<std::string>* fields) const {
    if (!Find(kBoxFormats, boxes.format())) {
      return BoxError(
          "format", absl::StrCat(" is \"", boxes.format(), "\" but must be ", ListOf(kBoxFormats)));
    }
    if (!(boxes.min_area_share() >= 0 && boxes.min_area_share() <= 1)) {
      return BoxError("min_area_share",
                      absl::StrCat(" is ", boxes.min_area_share(), " but must be in [0, 1]"));
    }
    if (!fields->insert(boxes.field()).second) {
      return BoxError("field", absl::StrCat(" \"", boxes.field(), "\" is there twice"));
    }
    for (int i = 0; i < boxes.label_size(); ++i) {
      if (boxes.label(i).empty()) return BoxError("label", " must name a field", i);
      if (!fields->insert(boxes.label(i)).second) {
        return BoxError("label", absl::StrCat(" \"", boxes.label(i), "\" is there twice"), i);
      }
    }
    return absl::OkStatus();
  }
};

augment::BoxOptions ToOptions(const proto::Boxes& boxes) {
  return {boxes.field(),
          *Find(kBoxFormats, boxes.format()),
          boxes.normalized(),
          {boxes.label().begin(), boxes.label().end()},
          boxes.min_area_share()};
}

template <typename Message>
bool Carries(const Message& message) {
  return message.has_boxes() || !message.mask().empty();
}

void FillBoxes(proto::Boxes* boxes) {
  if (boxes->field().empty()) boxes->set_field("boxes");
  if (boxes->format().empty()) boxes->set_format("xyxy");
}

}  // namespace

void FillCarried(proto::Stage* stage) {
  if (stage->random_resized_crop().has_boxes()) {
    FillBoxes(stage->mutable_random_resized_crop()->mutable_boxes());
  }
  if (stage->random_crop().has_boxes()) FillBoxes(stage->mutable_random_crop()->mutable_boxes());
  if (stage->center_crop().has_boxes()) FillBoxes(stage->mutable_center_crop()->mutable_boxes());
  if (stage->resize().has_boxes()) FillBoxes(stage->mutable_resize()->mutable_boxes());
  if (stage->flip().has_boxes()) FillBoxes(stage->mutable_flip()->mutable_boxes());
  if (stage->pad().has_boxes()) FillBoxes(stage->mutable_pad()->mutable_boxes());
}

absl::Status CheckCarried(const PipelineAt& at, int i) {
  const proto::Stage& stage = at.pipeline->stage(i);
  const CarryChecker check(at, i);
  absl::Status status;
  VisitGeometry(stage, [&](const auto& message) { status = check.Check(message); });
  MILLRACE_RETURN_IF_ERROR(status);
  if (!stage.has_pad() || !Carries(stage.pad()) || stage.pad().mode() == "constant") return status;
  return ErrorAt(
      at.Where(i, "mode"),
      "mode must be \"constant\" where boxes or a mask go along: the others show objects "
      "again, which have no box");
}

OpOptions WithCarried(const proto::Stage& stage, OpOptions options) {
  augment::TargetsOptions carry;
  bool carries = false;
  VisitGeometry(stage, [&](const auto& message) {
    carries = Carries(message);
    if (message.has_boxes()) carry.boxes = ToOptions(message.boxes());
    carry.mask = message.mask();
  });
  if (!carries) return options;
  std::visit(
      [&](auto& o) {
        if constexpr (std::is_constructible_v<augment::GeometryOptions, decltype(o)>) {
          carry.geometry = std::move(o);
        }
      },
      options);
  return carry;
}

}  // namespace millrace::pipeline
