#include "trainer/model/layers/table.h"

#include <array>

#include "trainer/model/layers/families.h"

namespace millrace::trainer {

std::span<const LayerFamily> LayerFamilies() {
  static const std::array kFamilies = {WindowLayers(), ProductLayers(), NormLayers(), JoinLayers(),
                                       ActivationLayers()};
  return kFamilies;
}

const LayerRow* FindRow(LayerSpec::KindCase kind) {
  for (const LayerFamily family : LayerFamilies()) {
    for (const LayerRow& row : family) {
      if (row.kind == kind) return &row;
    }
  }
  return nullptr;
}

}  // namespace millrace::trainer
