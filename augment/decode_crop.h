#ifndef MILLRACE_AUGMENT_DECODE_CROP_H_
#define MILLRACE_AUGMENT_DECODE_CROP_H_

#include <memory>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "augment/carry.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "base/op.h"

// decode_image and the crop of its output directly behind it: the file's verdict is that of what
// the crop needs, whether they are one op or two. A resize is here the crop that keeps everything.

namespace millrace::augment {

// Each names a window of the image. `stage` is the crop's: the identity of its random draws.
using CropOptions =
    std::variant<RandomResizedCropOptions, RandomCropOptions, CenterCropOptions, ResizeOptions>;

// Both as one op, to the bit, but only the rows and columns of the window are decoded. Damage of
// the file that the crop does not need goes unseen, unless verify_full is set; an image that the
// crop does not take is kValue as soon as its header is read, whatever follows it. With
// dct_downscale a JPEG may be decoded at a part of its size, in front of random_resized_crop and
// resize only. INVALID_ARGUMENT: bad options, or the crop's field is not the decode's output.
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeCrop(DecodeImageOptions decode, CropOptions crop,
                                                   const std::string& stage);

// The same, where boxes or a mask go along with the image (MakeCarry). INVALID_ARGUMENT too: the
// geometry is no crop.
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeCarry(DecodeImageOptions decode, CarryOptions crop,
                                                    const std::string& stage);

// decode_image of the whole image, in front of such a crop: an image of which the crop needs
// nothing damaged is handed on, black where the crop does not look.
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeImageToCrop(DecodeImageOptions decode,
                                                          CropOptions crop,
                                                          const std::string& crop_stage);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_DECODE_CROP_H_
