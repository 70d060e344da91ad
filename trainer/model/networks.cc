// The networks that the program writes as model files. Names of layers are those of PyTorch's
// state_dict, so that its weights can be found by name: "layer1.0.conv1/weights" is torchvision's
// "layer1.0.conv1.weight".

#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/model/model.h"
#include "trainer/model/model.pb.h"
#include "trainer/model/model_text.h"
#include "trainer/model/science_networks.h"
#include "trainer/models.h"

namespace millrace::trainer {
namespace {

// Its layers have the numbers of torch.nn.Sequential(Flatten(), Linear(...), ReLU(), ...).
std::string WriteMlp(const NetworkSizes& sizes) {
  ModelText model(
      "# A perceptron of several layers.\n"
      "name: \"mlp\"\n\n");
  model.AddInput(sizes);
  int number = 0;
  const auto add = [&](const std::string& kind) { model.Add(absl::StrCat(number++), kind); };
  add("reshape {}");
  for (const int64_t outputs : sizes.hidden) {
    add(absl::StrCat("fully_connected { outputs: ", outputs, " }"));
    add("relu {}");
  }
  add(absl::StrCat("fully_connected { outputs: ", sizes.classes, " }"));
  model.AddLoss();
  return model.text();
}

std::string WriteLeNet(const NetworkSizes& sizes) {
  ModelText model(
      "# A network of LeNet's kind: two convolutions, two products.\n"
      "name: \"lenet\"\n\n");
  model.AddInput(sizes);
  for (const int i : {1, 2}) {
    model.Add(absl::StrCat("conv", i),
              absl::StrCat("convolution { filters: ", 32 * i, " kernel: 5 padding: 2 }"));
    model.Add(absl::StrCat("relu", i), "relu {}");
    model.Add(absl::StrCat("pool", i), "pool { kernel: 2 }");
  }
  model.Add("fc1", "fully_connected { outputs: 512 }");
  model.Add("relu3", "relu {}");
  model.Add("fc2", absl::StrCat("fully_connected { outputs: ", sizes.classes, " }"));
  model.AddLoss();
  return model.text();
}

// A residual network: four stages of blocks, each of which halves the image, but for the first, and
// doubles the channels (He et al. 2015, table 1).
struct ResNet {
  const char* name;
  const char* about;
  std::array<int, 4> blocks;
  bool is_bottleneck;  // true for blocks of three convolutions, false for two
};

constexpr ResNet kResNet18 = {"resnet18", "ResNet-18 (He et al. 2015)", {2, 2, 2, 2}, false};
constexpr ResNet kResNet50 = {"resnet50",
                              "ResNet-50 v1.5: the 3x3 convolution of a block has its stride",
                              {3, 4, 6, 3},
                              true};

class ResNetWriter {
 public:
  explicit ResNetWriter(const ResNet& net)
      : net_(net), text_(absl::StrCat("# ", net.about, ".\nname: \"", net.name, "\"\n\n")) {}

  std::string Write(const NetworkSizes& sizes) {
    text_.AddInput(sizes);
    Convolution("conv1", 64, 7, 2, 3);
    Norm("bn1");
    text_.Add("relu", "relu {}");
    text_.Add("maxpool", "pool { kernel: 3 stride: 2 padding: 1 }");
    channels_ = 64;
    last_ = "maxpool";
    for (int stage = 0; stage < 4; ++stage) {
      for (int block = 0; block < net_.blocks[stage]; ++block) {
        AddBlock(absl::StrCat("layer", stage + 1, ".", block), 64 << stage,
                 stage > 0 && block == 0 ? 2 : 1);
      }
    }
    text_.AddBlankLine();
    text_.Add("avgpool", "global_average_pool {}");
    text_.Add("fc", absl::StrCat("fully_connected { outputs: ", sizes.classes,
                                 " initial { normal { deviation: 0.01 } } }"));
    text_.AddLoss(" label_smoothing: 0.1");
    return text_.text();
  }

 private:
  void Convolution(const std::string& name, int filters, int kernel, int stride, int padding,
                   const std::vector<std::string>& inputs = {}) {
    std::string kind = absl::StrCat("convolution { filters: ", filters, " kernel: ", kernel);
    if (stride > 1) absl::StrAppend(&kind, " stride: ", stride);
    if (padding > 0) absl::StrAppend(&kind, " padding: ", padding);
    text_.Add(name, kind + " bias: false initial { he_normal { fan_out: true } } }", inputs);
  }
  void Norm(const std::string& name) { text_.Add(name, "batch_norm {}"); }

  void AddBlock(const std::string& name, int width, int stride) {
    const int filters = net_.is_bottleneck ? 4 * width : width;
    text_.AddBlankLine();
    const std::string shortcut = AddShortcut(name, filters, stride);
    if (net_.is_bottleneck) {
      AddPart(name, 1, width, 1, 1);
      AddPart(name, 2, width, 3, stride);
    } else {
      AddPart(name, 1, width, 3, stride);
    }
    const int last = net_.is_bottleneck ? 3 : 2;
    const int kernel = net_.is_bottleneck ? 1 : 3;
    Convolution(absl::StrCat(name, ".conv", last), filters, kernel, 1, kernel / 2);
    const std::string norm = absl::StrCat(name, ".bn", last);
    text_.Add(norm, "batch_norm { zero_weights: true }");
    text_.Add(name + ".add", "add {}", {norm, shortcut});
    text_.Add(name, "relu {}");
    last_ = name;
    channels_ = filters;
  }

  // Returns the layer that is added to the block's last one.
  std::string AddShortcut(const std::string& name, int filters, int stride) {
    if (stride == 1 && channels_ == filters) return last_;
    Convolution(name + ".downsample.0", filters, 1, stride, 0, {last_});
    Norm(name + ".downsample.1");
    return name + ".downsample.1";
  }

  // A convolution, its norm and its ReLU.
  void AddPart(const std::string& name, int part, int filters, int kernel, int stride) {
    const std::vector<std::string> inputs =
        part == 1 ? std::vector<std::string>{last_} : std::vector<std::string>{};
    Convolution(absl::StrCat(name, ".conv", part), filters, kernel, stride, kernel / 2, inputs);
    Norm(absl::StrCat(name, ".bn", part));
    text_.Add(absl::StrCat(name, ".relu", part), "relu {}");
  }

  const ResNet& net_;
  ModelText text_;
  std::string last_;  // the layer that the next block reads
  int channels_ = 0;  // of it
};

struct NetworkRow {
  const char* name;
  NetworkSizes sizes;  // its own; those that are 0 cannot be chosen
  std::string (*write)(const NetworkSizes& sizes);
  ModelEnd end = ModelEnd::kLosses;
};

const std::vector<NetworkRow>& Networks() {
  static const std::vector<NetworkRow> kNetworks = {
      {"mlp", {.classes = 10, .image = {28, 28, 1}, .hidden = {512, 512}}, WriteMlp},
      {"lenet", {10, {28, 28, 1}}, WriteLeNet},
      {"resnet18",
       {1000, {224, 224, 3}},
       [](const NetworkSizes& sizes) { return ResNetWriter(kResNet18).Write(sizes); }},
      {"resnet50",
       {1000, {224, 224, 3}},
       [](const NetworkSizes& sizes) { return ResNetWriter(kResNet50).Write(sizes); }},
      {"hep_cnn", {2, {224, 224, 3}, 128}, WriteHepCnn},
      {"cosmogan_generator", {0, {256, 256, 1}, 64}, WriteCosmoGanGenerator, ModelEnd::kOutput},
      {"cosmogan_discriminator", {0, {256, 256, 1}, 64}, WriteCosmoGanDiscriminator},
  };
  return kNetworks;
}

// The sizes of `row` with those that are given.
absl::StatusOr<NetworkSizes> SizesOf(const NetworkRow& row, const NetworkSizes& given) {
  NetworkSizes sizes = row.sizes;
  for (const auto& [name, from, to] : {std::tuple("classes", given.classes, &sizes.classes),
                                       std::tuple("width", given.width, &sizes.width)}) {
    if (from == 0) continue;
    if (*to == 0) {
      return absl::InvalidArgumentError(absl::StrCat(row.name, " has no choice of ", name));
    }
    *to = from;
  }
  sizes.is_uint8 = given.is_uint8;
  if (!given.image.empty()) sizes.image = given.image;
  if (!given.hidden.empty()) {
    if (sizes.hidden.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(row.name, " has no choice of hidden layers"));
    }
    sizes.hidden = given.hidden;
  }
  const bool is_cosmogan = std::string_view(row.name).starts_with("cosmogan");
  if (is_cosmogan && (sizes.image[0] % 16 != 0 || sizes.image[1] % 16 != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(row.name, " wants a height and a width that are multiples of 16"));
  }
  return sizes;
}

}  // namespace

std::vector<std::string> NetworkNames() {
  std::vector<std::string> names;
  for (const NetworkRow& network : Networks()) names.emplace_back(network.name);
  return names;
}

absl::StatusOr<std::string> WriteModel(std::string_view network, const NetworkSizes& sizes) {
  for (const NetworkRow& row : Networks()) {
    if (row.name != network) continue;
    MILLRACE_ASSIGN_OR_RETURN(const NetworkSizes whole, SizesOf(row, sizes));
    std::string text = row.write(whole);
    ModelSpec spec;
    const auto parsed = pipeline::ParseTextProto(text, row.name, {}, &spec);
    if (!parsed.ok()) return parsed.status();
    const auto where = [&](int) { return std::string(row.name); };
    const auto model = BuildModel(spec, where, row.end);
    if (!model.ok()) return model.status();
    return text;
  }
  return absl::NotFoundError(absl::StrCat("there is no network '", ToAbsl(network), "'; there are ",
                                          absl::StrJoin(NetworkNames(), ", ")));
}

}  // namespace millrace::trainer
