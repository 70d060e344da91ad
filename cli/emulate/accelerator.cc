#include "cli/emulate/accelerator.h"

namespace millrace::cli {
namespace {

constexpr Accelerator kAccelerators[] = {
    {"h100-storage", 400, 0.224},
    {"a100-storage", 400, 0.435},
    {"a100-train", 400, 400 / 3180.0},
    {"h100-train", 400, 400 / 7050.0},
};

}  // namespace

std::span<const Accelerator> Accelerators() { return kAccelerators; }

std::vector<std::string> AcceleratorNames() {
  std::vector<std::string> names;
  for (const Accelerator& accelerator : kAccelerators) names.emplace_back(accelerator.name);
  return names;
}

const Accelerator* FindAccelerator(std::string_view name) {
  for (const Accelerator& accelerator : kAccelerators) {
    if (accelerator.name == name) return &accelerator;
  }
  return nullptr;
}

}  // namespace millrace::cli
