#ifndef MILLRACE_CLI_PAGE_CONTACT_SHEET_H_
#define MILLRACE_CLI_PAGE_CONTACT_SHEET_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/page/row_image.h"
#include "cli/page/row_table.h"
#include "pipeline/crop_watch.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"
#include "pipeline/plan_view.h"

namespace millrace::cli {

// Batches as one self-contained HTML page: images with the other fields of their samples and, under
// the mouse, the work of the stages on them; a table if no field is an image. All text from data or
// the plan is escaped, and the page forbids scripts and everything that it does not contain.
// Thread-compatible.
class ContactSheet {
 public:
  // `title` is the plan's file; `stream` has been opened from `watch`, or from the plan as it is.
  // All but the title must outlive this.
  static ContactSheet Make(std::string title, const pipeline::Plan& plan,
                           const pipeline::CropWatch& watch, const pipeline::Pipeline& stream);

  // Takes a piece of the page.
  using Sink = std::function<absl::Status(std::string_view)>;

  // The page is Begin, a section per batch, and End.
  std::string Begin() const;
  // Passes the first `max_rows` valid rows to `sink`, one by one. Errors are those of MakeRowImage
  // and `sink`.
  absl::Status AppendSection(const pipeline::Batch& batch, int64_t max_rows,
                             const Sink& sink) const;
  std::string End() const { return "</body></html>\n"; }

 private:
  ContactSheet(std::string title, const pipeline::Plan& plan, const pipeline::CropWatch& watch,
               const pipeline::Pipeline& stream, std::vector<ImageField> images);

  // The record of a row's sample, and its file.
  std::string PlaceText(const pipeline::Batch& batch, int64_t row) const;
  absl::StatusOr<std::string> Figure(const pipeline::Batch& batch, int64_t row) const;
  absl::StatusOr<std::string> Image(const pipeline::Batch& batch, size_t tensor,
                                    const ImageField& field, int64_t row) const;
  // The work of the stages on a field of a sample, one line for each stage.
  std::string StagesText(const ImageField& field, const SampleId& id) const;
  const ImageField* FindImage(const std::string& name) const;

  std::string title_;
  const pipeline::Plan* plan_;
  const pipeline::CropWatch* watch_;
  const pipeline::Pipeline* stream_;
  std::vector<pipeline::StageView> stages_;
  std::vector<ImageField> images_;
  std::optional<RowTable> table_;  // for batches without an image
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PAGE_CONTACT_SHEET_H_
