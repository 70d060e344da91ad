#ifndef MILLRACE_PIPELINE_CROP_WATCH_H_
#define MILLRACE_PIPELINE_CROP_WATCH_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "augment/drawn_crop.h"
#include "base/run.h"
#include "pipeline/op_table.h"
#include "pipeline/plan.h"

namespace millrace::pipeline {

class ImageExtents;  // the extents of the images that were decoded; crop_watch.cc

// The windows of a plan's random crops and the draws of its other random stages, sample by sample.
// A crop is drawn from a sample's random words and the extents of its image, which are in no batch.
// So the plan gets a stage in front of each decode_image that reads the header of the image, notes
// the extents, and changes no sample. Thread-safe.
class CropWatch {
 public:
  static CropWatch Make(const Plan& plan);

  // The plan with those stages, and the ops with which to open it. The plan is unchanged if it
  // looks at samples to decide how many there are, or if it has stages of the names of the new
  // ones; then the window of a decoded image is not known.
  const Plan& watched() const { return watched_; }
  const std::shared_ptr<const OpTable>& ops() const { return ops_; }

  // Returns the window that stage `stage` of the plan given to Make, a random_resized_crop or
  // random_crop, has taken from the sample's image; nullopt for a stage of another kind, and if the
  // extents are not known. REQUIRES: the plan has a stage `stage`; the sample came from watched().
  std::optional<augment::CropWindow> WindowOf(size_t stage, const SampleId& id) const;
  // Returns the draws of a stage that changes colours, an affine or an auto_augment for the
  // sample's image (a factor, an angle, transforms: augment/drawn_values.h); "" for a stage of
  // another kind, and if it drew nothing. Distances in pixels are left out if the extents are not
  // known. REQUIRES: as for WindowOf.
  std::string DrawnText(size_t stage, const SampleId& id) const;
  // Frees the notes about these samples.
  void Forget(std::span<const SampleId> ids) const;

 private:
  CropWatch(Plan plan, Plan watched, std::shared_ptr<ImageExtents> extents,
            std::shared_ptr<const OpTable> ops)
      : plan_(std::move(plan)),
        watched_(std::move(watched)),
        extents_(std::move(extents)),
        ops_(std::move(ops)) {}

  Plan plan_;
  Plan watched_;
  std::shared_ptr<ImageExtents> extents_;
  std::shared_ptr<const OpTable> ops_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_CROP_WATCH_H_
