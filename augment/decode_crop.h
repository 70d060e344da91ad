#ifndef MILLRACE_AUGMENT_DECODE_CROP_H_
#define MILLRACE_AUGMENT_DECODE_CROP_H_

#include <memory>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "augment/targets.h"
#include "base/op.h"

// decode_image and the crop directly behind it. A file is judged by the part that the crop needs,
// whether both are one op or two. A resize counts as the crop that keeps everything.

namespace millrace::augment {

// Options of the ops that cut a window out of the image. Below, `stage` is the name of the crop's
// stage, the identity of its random draws.
using CropOptions =
    std::variant<RandomResizedCropOptions, RandomCropOptions, CenterCropOptions, ResizeOptions>;

// Makes one op with the bits of both, which decodes only the rows and columns of the window. Damage
// of the file outside of the window goes unseen, unless verify_full is set. An image that the crop
// does not take is a row error (kValue) as soon as its header is read. With dct_downscale a JPEG
// may be decoded at a part of its size, in front of random_resized_crop and resize only.
//   INVALID_ARGUMENT  bad options, or the crop's field is not the decode's output
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeCrop(DecodeImageOptions decode, CropOptions crop,
                                                   const std::string& stage);

// The same with boxes or a mask that go with the image (MakeWithTargets).
//   INVALID_ARGUMENT  as above, or the geometry is no crop
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeWithTargets(DecodeImageOptions decode,
                                                          TargetsOptions crop,
                                                          const std::string& stage);

// Makes decode_image alone, for use in front of such a crop. Images that are damaged outside of the
// crop's window are handed on; pixels outside of it may be black.
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImageToCrop(DecodeImageOptions decode,
                                                          CropOptions crop,
                                                          const std::string& crop_stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_DECODE_CROP_H_
