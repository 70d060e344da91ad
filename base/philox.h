#ifndef MILLRACE_BASE_PHILOX_H_
#define MILLRACE_BASE_PHILOX_H_

#include <array>
#include <cstdint>
#include <string_view>

// Counter-based random numbers: the n-th word of a stream is a pure function of its key and n, so
// any thread can make it, in any order, and get the same bits. Philox4x32-10 of Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3" (SC'11); its published known answers are a test.

namespace millrace {

// One block: four words from a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// SplitMix64's finaliser (Steele et al., OOPSLA'14): every bit of `x` reaches every bit of the
// result.
constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// A 64-bit mixer of an op's or a stage's name, stable for ever.
uint64_t HashName(std::string_view name);

// The inputs of a random draw (docs/semantics.md): the plan's seed, the op's name, the epoch, the
// sample's number in its source and its sub-index.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t op = 0;  // HashName(the stage's name)
  uint64_t epoch = 0;
  uint64_t record = 0;
  uint64_t sub_index = 0;
};

// The words drawn by one op for one sample. Cheap to make; a value type, one thread at a time.
class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key);

  uint32_t NextU32();
  uint64_t NextU64();
  // Uniform in [0, 1): 24 bits, exactly representable.
  float NextFloat();
  // Uniform in [0, 1): 53 bits.
  double NextDouble();
  // Uniform in [0, bound) without bias (rejection). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_PHILOX_H_
