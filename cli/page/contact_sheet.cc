#include "cli/page/contact_sheet.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/record_error.h"
#include "base/status.h"
#include "cli/page/html.h"
#include "cli/page/row_value.h"

namespace millrace::cli {
namespace {

constexpr int64_t kSmallSide = 112;  // pixels on the page; smaller images are enlarged

constexpr char kHead[] = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>
body { font: 13px sans-serif; margin: 1em; }
section { display: flex; flex-wrap: wrap; gap: 10px; }
figure { margin: 0; }
figcaption { max-width: 20em; overflow-wrap: anywhere; }
img { image-rendering: pixelated; display: block; border: 1px solid #999; margin-bottom: 2px; }
figcaption span { display: block; }
.from { color: #777; }
table { border-collapse: collapse; margin: 1em 0; }
td, th { border: 1px solid #ccc; padding: 2px 6px; text-align: left; vertical-align: top; }
td { max-width: 50em; overflow-wrap: anywhere; }
.token { white-space: nowrap; }
sub { color: #777; }
.bars { display: flex; align-items: flex-end; height: 60px; margin: 0; }
.bars span { width: 10px; margin-right: 1px; background: #58a; }
</style>
)";

constexpr char kAboutImages[] =
    "Hold the mouse over an image for the stages "
    "that made it: their options; of stages with a probability, whether they acted on "
    "this sample; of random crops, the rows and columns of the image in front of the "
    "stage that were kept; of stages that change colours, affine and auto_augment, the factors, "
    "angles and transforms that were drawn. What else a stage drew is not shown.";

// Small images are shown several times as large, so that single pixels are seen.
int64_t Enlarge(int64_t height, int64_t width) {
  return std::max<int64_t>(1, kSmallSide / std::max<int64_t>(1, std::max(height, width)));
}

std::string Caption(std::string_view css, std::string_view text) {
  return absl::StrFormat("<span class=\"%s\">%s</span>", css, EscapeHtml(text));
}

std::string Line(const pipeline::StageView& stage) {
  const std::string title =
      stage.name == stage.op ? stage.op : absl::StrCat(stage.name, " (", stage.op, ")");
  return stage.options.empty() ? title : absl::StrCat(title, ": ", stage.options);
}

// The text for a stage with a probability, by whether it was drawn to act.
std::string_view ActedText(const pipeline::StageView& stage, bool acted) {
  if (!acted) return "  -> did nothing";
  // It may have found no place for a rectangle.
  if (stage.op == "random_erasing") return "  -> acted, if one of ten rectangles fitted";
  return "  -> acted";
}

// The text for an image that is shown smaller than it is.
std::string ReducedText(const RowImage& image) {
  return absl::StrFormat("shown at 1/%d of %d x %d", image.reduced_by, image.full_width,
                         image.full_height);
}

}  // namespace

ContactSheet ContactSheet::Make(std::string title, const pipeline::Plan& plan,
                                const pipeline::CropWatch& watch,
                                const pipeline::Pipeline& stream) {
  std::vector<ImageField> images;
  for (const Field& field : stream.schema().fields()) {
    auto image = FindImageField(field, pipeline::HistoryOf(plan, field.name));
    if (image) images.push_back(*std::move(image));
  }
  return ContactSheet(std::move(title), plan, watch, stream, std::move(images));
}

ContactSheet::ContactSheet(std::string title, const pipeline::Plan& plan,
                           const pipeline::CropWatch& watch, const pipeline::Pipeline& stream,
                           std::vector<ImageField> images)
    : title_(std::move(title)),
      plan_(&plan),
      watch_(&watch),
      stream_(&stream),
      stages_(pipeline::StagesOf(plan)),
      images_(std::move(images)) {
  if (images_.empty()) table_.emplace(plan, stream.schema());
}

const ImageField* ContactSheet::FindImage(const std::string& name) const {
  const auto it = std::ranges::find(images_, name, &ImageField::name);
  return it == images_.end() ? nullptr : &*it;
}

std::string ContactSheet::Begin() const {
  std::string html = absl::StrCat(kHead, "<title>", EscapeHtml(title_),
                                  "</title></head><body>\n<h1>", EscapeHtml(title_), "</h1>\n");
  absl::StrAppend(&html, "<p>Rows as they leave the pipeline. ", table_ ? "" : kAboutImages,
                  "</p>\n<details><summary>The plan</summary><ol>\n");
  for (const pipeline::StageView& stage : stages_) {
    absl::StrAppend(&html, "<li>", EscapeHtml(Line(stage)), "</li>\n");
  }
  html += "</ol></details>\n";
  for (const ImageField& image : images_) {
    if (!image.layout_guessed) continue;
    absl::StrAppend(
        &html, "<p>", EscapeHtml(image.name), ": the plan does not say how it lies; ",
        image.channels_first ? "[channels, height, width]" : "[height, width, channels]",
        " is a guess from its extents.</p>\n");
  }
  return html;
}

absl::Status ContactSheet::AppendSection(const pipeline::Batch& batch, int64_t max_rows,
                                         const Sink& sink) const {
  std::string html = absl::StrFormat("<h2>Batch %d, epoch %d</h2>\n", batch.index(), batch.epoch());
  const int64_t shown = std::min(max_rows, batch.num_valid_rows());
  absl::StrAppendFormat(&html, "<p>%d of %d rows</p>\n", shown, batch.num_valid_rows());
  html += table_ ? table_->Begin(batch) : "<section>\n";
  MILLRACE_RETURN_IF_ERROR(sink(html));
  int64_t left = shown;
  for (int64_t row = 0; row < batch.num_rows() && left > 0; ++row) {
    if (batch.valid()[static_cast<size_t>(row)] == 0) continue;
    --left;
    if (table_) {
      MILLRACE_RETURN_IF_ERROR(sink(table_->Row(batch, row, PlaceText(batch, row))));
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::string figure, Figure(batch, row));
    MILLRACE_RETURN_IF_ERROR(sink(figure));
  }
  return sink(table_ ? table_->End(batch) : "</section>\n");
}

std::string ContactSheet::PlaceText(const pipeline::Batch& batch, int64_t row) const {
  const SampleId& id = batch.ids()[static_cast<size_t>(row)];
  const RecordError place = stream_->Locate(id);
  std::string text = absl::StrCat("record ", id.record);
  if (id.sub_index != 0) absl::StrAppend(&text, ", part ", id.sub_index);
  if (!place.file.empty()) absl::StrAppend(&text, ", ", place.file);
  if (place.ordinal >= 0) absl::StrAppend(&text, " record ", place.ordinal);
  return text;
}

absl::StatusOr<std::string> ContactSheet::Figure(const pipeline::Batch& batch, int64_t row) const {
  std::string images;
  std::string captions;
  for (size_t i = 0; i < batch.names().size(); ++i) {
    const std::string& name = batch.names()[i];
    if (IsSplits(batch, name)) continue;
    if (const ImageField* field = FindImage(name)) {
      MILLRACE_ASSIGN_OR_RETURN(const std::string image, Image(batch, i, *field, row));
      images += image;
    } else {
      const std::string text = RowValue::Of(batch, i, row).ToText();
      captions += Caption("value", absl::StrCat(name, ": ", text));
    }
  }
  const std::string from = absl::StrCat("row ", row, ": ", PlaceText(batch, row));
  return absl::StrCat("<figure>", images, "<figcaption>", captions, Caption("from", from),
                      "</figcaption></figure>\n");
}

absl::StatusOr<std::string> ContactSheet::Image(const pipeline::Batch& batch, size_t tensor,
                                                const ImageField& field, int64_t row) const {
  const RowValue value = RowValue::Of(batch, tensor, row);
  if (value.shape().num_elements() == 0) return Caption("from", value.ToText());
  MILLRACE_ASSIGN_OR_RETURN(const RowImage image, MakeRowImage(field, value));
  const int64_t by = Enlarge(image.height, image.width);
  const std::string hover = StagesText(field, batch.ids()[static_cast<size_t>(row)]);
  std::string html;
  for (size_t i = 0; i < image.pngs.size(); ++i) {
    const std::string alt = i == 0 ? field.name : field.name + ", fourth channel";
    absl::StrAppendFormat(&html,
                          "<img width=\"%d\" height=\"%d\" alt=\"%s\" title=\"%s\" src=\"%s\">",
                          image.width * by, image.height * by, EscapeHtml(alt), EscapeHtml(hover),
                          PngUri(image.pngs[i]));
  }
  if (image.reduced_by > 1) html += Caption("from", ReducedText(image));
  if (!image.values.empty()) html += Caption("from", image.values);
  return html;
}

std::string ContactSheet::StagesText(const ImageField& field, const SampleId& id) const {
  std::string text = field.name;
  for (const size_t stage : field.history.stages) {
    absl::StrAppend(&text, "\n", Line(stages_[stage]));
    const std::optional<bool> acted = pipeline::HasActed(*plan_, stage, id);
    if (acted) absl::StrAppend(&text, ToAbsl(ActedText(stages_[stage], *acted)));
    if (const std::string drawn = watch_->DrawnText(stage, id); !drawn.empty()) {
      absl::StrAppend(&text, "  -> ", drawn);
    }
    if (const auto window = watch_->WindowOf(stage, id)) {
      absl::StrAppendFormat(&text, "  -> rows %d to %d, columns %d to %d", window->top,
                            window->top + window->height - 1, window->left,
                            window->left + window->width - 1);
    }
  }
  return text;
}

}  // namespace millrace::cli
