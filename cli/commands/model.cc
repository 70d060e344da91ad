#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/commands/command.h"
#include "cli/exit.h"
#include "trainer/models.h"

namespace millrace::cli {
namespace {

struct Flags {
  std::string network;
  uint64_t classes = 0;
  std::string image;
  uint64_t width = 0;
  std::string hidden;
  bool uint8 = false;
};

constexpr int64_t kMaxOutputs = 1 << 20;

// Reads numbers with `separator` between them.
bool ParseNumbers(const std::string& text, char separator, std::vector<int64_t>& numbers) {
  for (const auto part : absl::StrSplit(text, separator)) {
    if (!absl::SimpleAtoi(part, &numbers.emplace_back())) return false;
  }
  return true;
}

// Reads "224x224x3".
bool ParseImage(const std::string& text, std::vector<int64_t>& image) {
  return ParseNumbers(text, 'x', image) && image.size() == 3;
}

// Reads "512,256".
bool ParseHidden(const std::string& text, std::vector<int64_t>& hidden) {
  return ParseNumbers(text, ',', hidden) && std::ranges::all_of(hidden, [](int64_t outputs) {
           return outputs >= 1 && outputs <= kMaxOutputs;
         });
}

int Run(const Flags& flags) {
  trainer::NetworkSizes sizes;
  sizes.classes = static_cast<int64_t>(flags.classes);
  sizes.width = static_cast<int64_t>(flags.width);
  sizes.is_uint8 = flags.uint8;
  if (!flags.image.empty() && !ParseImage(flags.image, sizes.image)) {
    return FailUsage(
        absl::StrCat("--image ", flags.image, " is not HEIGHTxWIDTHxCHANNELS (224x224x3)"));
  }
  if (!flags.hidden.empty() && !ParseHidden(flags.hidden, sizes.hidden)) {
    return FailUsage(absl::StrCat("--hidden ", flags.hidden, " is not a list of numbers from 1 to ",
                                  kMaxOutputs, " (512,256)"));
  }
  const auto text = trainer::WriteModel(flags.network, sizes);
  if (!text.ok()) return Fail(text.status());
  std::fputs(text->c_str(), stdout);
  return kDone;
}

}  // namespace

void AddModel(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand("model", "Write the model file of a network");
  command.Add("network", flags->network, absl::StrJoin(trainer::NetworkNames(), ", "))
      .Required()
      .OneOf(trainer::NetworkNames());
  command.Add("--classes", flags->classes, "Classes (default: the network's own)")
      .Whole(2, kMaxOutputs);
  command.Add("--image", flags->image,
              "HEIGHTxWIDTHxCHANNELS of the images (default: the network's own)");
  command
      .Add("--width", flags->width,
           "Channels of the first convolution of hep_cnn and cosmogan (default: 128, 64)")
      .Whole(1, 4096);
  command.Add("--hidden", flags->hidden,
              "Outputs of the hidden layers of mlp, as N,N,... (default: 512,512)");
  command.AddSwitch("--uint8", flags->uint8,
                    "Images of uint8, which the first layer normalizes: a quarter of the bytes");
  command.Footer(
      "Examples:\n"
      "  millrace model resnet50 --classes 1000 > model.pbtxt\n"
      "  millrace model resnet18 --classes 10 --image 32x32x3 > model.pbtxt\n"
      "  millrace model resnet50 --uint8 > model_uint8.pbtxt\n"
      "  millrace model mlp --classes 2 --image 1x1x13 --hidden 256,64 > model.pbtxt");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
