#include "trainer/model/science_networks.h"

#include "absl/strings/str_cat.h"
#include "trainer/model/model_text.h"

namespace millrace::trainer {
namespace {

constexpr int kScales = 4;  // times that a convolution of CosmoGAN halves or doubles the image
constexpr char kNormal[] = "initial { normal { deviation: 0.02 } }";

}  // namespace

std::string WriteHepCnn(const NetworkSizes& sizes) {
  ModelText model(
      "# HEP-CNN (Kurth et al. 2017, arXiv:1708.05256).\n"
      "name: \"hep_cnn\"\n\n");
  model.AddInput(sizes);
  const std::string convolution =
      absl::StrCat("convolution { filters: ", sizes.width, " kernel: 3 same: true }");
  for (const int i : {1, 2, 3, 4}) {
    model.Add(absl::StrCat("conv", i), convolution);
    model.Add(absl::StrCat("relu", i), "relu {}");
    model.Add(absl::StrCat("pool", i), "pool { kernel: 2 }");
    model.Add(absl::StrCat("dropout", i), "dropout { rate: 0.5 }");
  }
  model.Add("conv5", convolution);
  model.Add("relu5", "relu {}");
  model.AddBlankLine();
  model.Add("avgpool", "global_average_pool {}");
  model.Add("fc", absl::StrCat("fully_connected { outputs: ", sizes.classes, " }"));
  model.AddLoss();
  return model.text();
}

std::string WriteCosmoGanGenerator(const NetworkSizes& sizes) {
  ModelText model(
      "# The generator of CosmoGAN (Mustafa et al. 2017, arXiv:1706.02390).\n"
      "name: \"cosmogan_generator\"\n\n");
  model.Add("noise", "input_layer { field: \"noise\" shape: 64 }");
  model.AddBlankLine();
  int64_t channels = sizes.width << (kScales - 1);
  const int64_t height = sizes.image[0] >> kScales;
  const int64_t width = sizes.image[1] >> kScales;
  model.Add("fc", absl::StrCat("fully_connected { outputs: ", height * width * channels, " ",
                               kNormal, " }"));
  model.Add("image0",
            absl::StrCat("reshape { shape: [", height, ", ", width, ", ", channels, "] }"));
  for (int i = 1; i <= kScales; ++i) {
    model.Add(absl::StrCat("bn", i - 1), "batch_norm {}");
    model.Add(absl::StrCat("relu", i - 1), "relu {}");
    channels = i < kScales ? channels / 2 : sizes.image[2];
    model.Add(absl::StrCat("conv", i),
              absl::StrCat("transposed_convolution { filters: ", channels,
                           " kernel: 5 stride: 2 same: true ", kNormal, " }"));
  }
  model.Add("made", "tanh {}");
  return model.text();
}

std::string WriteCosmoGanDiscriminator(const NetworkSizes& sizes) {
  ModelText model(
      "# The discriminator of CosmoGAN (Mustafa et al. 2017, arXiv:1706.02390).\n"
      "name: \"cosmogan_discriminator\"\n\n");
  model.AddInput(sizes);
  for (int i = 1; i <= kScales; ++i) {
    model.Add(absl::StrCat("conv", i),
              absl::StrCat("convolution { filters: ", sizes.width << (i - 1),
                           " kernel: 5 stride: 2 same: true initial { truncated_normal "
                           "{ deviation: 0.02 } } }"));
    if (i > 1) model.Add(absl::StrCat("bn", i), "batch_norm {}");
    model.Add(absl::StrCat("relu", i), "leaky_relu { slope: 0.2 }");
  }
  model.Add("fc", absl::StrCat("fully_connected { outputs: 1 ", kNormal, " }"));
  model.AddBlankLine();
  model.Add("judgement", "sigmoid_cross_entropy {}");
  return model.text();
}

}  // namespace millrace::trainer
