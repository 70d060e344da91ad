#ifndef MILLRACE_BENCH_RESNET50_SIZES_H_
#define MILLRACE_BENCH_RESNET50_SIZES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace millrace {

// Elements of the 161 parameters of ResNet-50 (25,557,032 in all) in the order in which backward
// makes their gradients: a convolution and two of batch normalisation each, and the classifier's
// two.
inline std::vector<int64_t> ResNet50Sizes() {
  std::vector<int64_t> sizes;
  const auto convolution = [&sizes](int64_t in, int64_t out, int64_t kernel) {
    for (const int64_t size : {in * out * kernel * kernel, out, out}) sizes.push_back(size);
  };
  convolution(3, 64, 7);
  constexpr int kBlocks[] = {3, 4, 6, 3};
  int64_t in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int block = 0; block < kBlocks[stage]; ++block) {
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (block == 0) convolution(in, 4 * width, 1);
      in = 4 * width;
    }
  }
  sizes.push_back(2048 * 1000);
  sizes.push_back(1000);
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace millrace

#endif  // MILLRACE_BENCH_RESNET50_SIZES_H_
