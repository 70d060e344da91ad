#include "trainer/server/placement.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "trainer/job/servers.h"

namespace millrace::trainer {

absl::StatusOr<std::vector<std::vector<size_t>>> PlaceParameters(const Model& model, int servers) {
  const size_t count = model.parameters.size();
  if (static_cast<size_t>(servers) > count) {
    return absl::InvalidArgumentError(absl::StrCat(kServersField, ".servers: ", servers,
                                                   " are more than the ", count,
                                                   " parameters of the model"));
  }
  const auto elements = [&model](size_t i) { return model.parameters[i].shape.num_elements(); };
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), elements);
  std::vector<std::vector<size_t>> placed(servers);
  std::vector<int64_t> load(servers);
  for (const size_t i : order) {
    // By their number where bytes are equal.
    const auto lightest = std::ranges::min_element(placed, {}, [&](const auto& own) {
      return std::pair(load[&own - placed.data()], own.size());
    });
    load[lightest - placed.begin()] += elements(i);
    lightest->push_back(i);
  }
  for (std::vector<size_t>& own : placed) std::ranges::sort(own);
  return placed;
}

}  // namespace millrace::trainer
