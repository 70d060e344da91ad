#ifndef MILLRACE_AUGMENT_FIELD_HASH_H_
#define MILLRACE_AUGMENT_FIELD_HASH_H_

#include <cstdint>
#include <string_view>

namespace millrace::augment {

// Returns floor(h * num_bins / 2^64), where h is the 64-bit XXH3 with seed `salt`: needs no
// division, and the probabilities of bins differ by num_bins / 2^64 at most.
uint64_t BinOf(std::string_view bytes, uint64_t salt, uint64_t num_bins);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FIELD_HASH_H_
