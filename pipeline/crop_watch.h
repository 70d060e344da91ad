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

class ImageExtents;  // of the images that were decoded; crop_watch.cc

// Where the random crops of a plan lie and what its other random stages drew, sample by sample. A
// crop is drawn from a sample's random words and the extents of its image, which no batch has: so
// the plan gets a stage in front of each decode_image that reads the header and notes them, and
// changes no sample. Thread-safe.
class CropWatch {
 public:
  static CropWatch Make(const Plan& plan);

  // The plan with those stages, and the ops that it is to be opened with. The plan as it is when it
  // drops or makes samples by looking at them, or when those stages do not go into it (one of its
  // own has the name of one of them); then of images that were decoded no window is known.
  const Plan& watched() const { return watched_; }
  const std::shared_ptr<const OpTable>& ops() const { return ops_; }

  // What random_resized_crop or random_crop, stage `stage` of the plan given to Make, has cut out
  // of the sample's image; nullopt for another stage, and when the extents are not known there.
  // REQUIRES: the plan has such a stage; the sample came from watched().
  std::optional<augment::CropWindow> WindowOf(size_t stage, const SampleId& id) const;
  // What a stage that changes colours, affine or auto_augment has drawn for the sample's image (a
  // factor, an angle, transforms: augment/drawn_values.h); "" for another stage, and where it drew
  // none. Distances in pixels are left out when the extents are not known there.
  // REQUIRES: as WindowOf's.
  std::string DrawnText(size_t stage, const SampleId& id) const;
  // Frees what is noted of these samples.
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
